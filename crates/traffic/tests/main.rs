//! Traces, stamps and the tester.

mod captures;
mod gateway;
mod stamps;
mod tester;
mod traces;
