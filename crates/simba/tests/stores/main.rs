//! The client on real stores: the same cases on each, and what becomes of its promises while the store is killed,
//! frozen, cut off or emptied.
//!
//! A store joins with a stage in `stage.rs` and a line below.

#[path = "../support/mod.rs"]
mod support;

#[cfg(any(feature = "redis", feature = "postgres", feature = "mysql"))]
mod cost;
mod crowd;
#[cfg(any(feature = "redis", feature = "postgres", feature = "mysql"))]
mod faults;
mod machine;
mod observed;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
mod stage;
mod suite;
mod witness;

#[cfg(feature = "sqlite")]
suite::on!(on_sqlite, Sqlite);
#[cfg(feature = "redis")]
suite::on!(on_redis, Redis);
#[cfg(feature = "redis")]
suite::on!(on_redis_with_tls, RedisWithTls);
#[cfg(feature = "redis")]
suite::on!(on_redis_with_sentinels, Sentinels);
#[cfg(feature = "redis")]
suite::on!(on_redis_cluster, Cluster);
#[cfg(feature = "postgres")]
suite::on!(on_postgres, Postgres);
#[cfg(feature = "postgres")]
suite::on!(on_postgres_behind_a_pooler, Pooled);

#[cfg(feature = "mysql")]
suite::on!(on_mariadb, MariaDb);

#[cfg(feature = "redis")]
faults::on!(redis_in_trouble, Redis);
#[cfg(feature = "postgres")]
faults::on!(postgres_in_trouble, Postgres);
#[cfg(feature = "mysql")]
faults::on!(mariadb_in_trouble, MariaDb);
