//! The sink and the consumer against a real RabbitMQ server, whose connections, clients and self are killed.

mod consumer;
mod proxy;
mod rig;
mod sink;
