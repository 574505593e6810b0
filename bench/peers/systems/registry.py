"""All systems, in the order of the table."""

from __future__ import annotations

from bench.peers.system import System
from bench.peers.systems.beanstalkd import Beanstalkd
from bench.peers.systems.jjqembedded import JjqEmbedded
from bench.peers.systems.jjqserver import JjqServer
from bench.peers.systems.kafka import Kafka
from bench.peers.systems.nats import Nats
from bench.peers.systems.rabbitmq import RabbitMq
from bench.peers.systems.redis import Redis

SYSTEMS: dict[str, type[System]] = {
    system.name: system for system in (JjqServer, JjqEmbedded, Redis, Nats, Kafka, RabbitMq, Beanstalkd)
}
