//! The sink and the consumer against librdkafka's mock cluster: the client's own idea of Kafka, in this process. It
//! stores nothing, and what it does not imitate is not tested here.

mod consumer;
mod rig;
mod sink;
mod storm;
