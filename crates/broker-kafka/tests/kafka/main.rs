//! The sink and the consumer against librdkafka's mock cluster, which is the client's own idea of Kafka in this process
//! (it stores nothing, and what it does not imitate is not tested by it), and against a broker of another make where
//! one is installed or named. Tests over the mock are called so.

mod consumer;
mod rig;
mod sink;
mod storm;
