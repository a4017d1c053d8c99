//! One polling loop per endpoint: reads a model server's metrics page into the pool.
