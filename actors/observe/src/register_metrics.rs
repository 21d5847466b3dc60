//! Macro for structs of metrics.

/// Defines a struct of metrics with a function `register`, which registers each field with a child's
/// [`Vitals`](crate::Vitals).
///
/// A field has a kind, `counter` or `gauge`, and a unit, which may be empty. The metric has the name of the
/// field, or the name after `as`. The field's doc comment is the help text; without one the macro does not
/// compile.
///
/// With `by "label"` after the struct's name, the metrics belong to one peer, and `register` takes the
/// label's value; see [`Vitals::register_labelled`](crate::Vitals::register_labelled).
///
/// ```
/// orchestrator_observe::metrics! {
///     /// Metrics of a consumer.
///     pub struct ConsumerMetrics {
///         /// Messages delivered by the broker.
///         pub deliveries: counter("messages"),
///         /// Bodies of the calls under way.
///         pub held: gauge("bytes") as "in_flight",
///     }
/// }
/// orchestrator_observe::metrics! {
///     /// Metrics of one worker.
///     pub struct WorkerMetrics by "worker" {
///         /// Events sent to the worker.
///         pub events: counter("events"),
///     }
/// }
/// ```
#[macro_export]
macro_rules! metrics {
    (@kind counter) => { $crate::MetricKind::Counter };
    (@kind gauge) => { $crate::MetricKind::Gauge };
    (@help) => { ::std::compile_error!("a metric needs a doc comment: it is the help text") };
    (@help $($help:expr)+) => { ::std::concat!($($help),+) };
    (@name $field:ident) => { ::std::stringify!($field) };
    (@name $field:ident $name:literal) => { $name };
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $type:ident $(by $label:literal)? {
            $(
                $(#[doc = $help:expr])*
                $field_visibility:vis $field:ident: $kind:ident($unit:literal) $(as $name:literal)?
            ),* $(,)?
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone)]
        $visibility struct $type {
            $( $(#[doc = $help])* $field_visibility $field: $crate::Metric, )*
        }

        $crate::metrics! {
            @register $visibility $type [$($label)?] $(
                $field($crate::metrics!(@name $field $($name)?), $unit, $crate::metrics!(@kind $kind), [$($help)*])
            )*
        }
    };
    (
        @register $visibility:vis $type:ident []
        $( $field:ident($name:expr, $unit:literal, $kind:expr, [$($help:expr)*]) )*
    ) => {
        impl $type {
            /// Registers the metrics, or returns those of an earlier incarnation.
            $visibility fn register(vitals: &$crate::Vitals) -> Self {
                Self { $( $field: vitals.register($name, $unit, $kind, $crate::metrics!(@help $($help)*)), )* }
            }
        }
    };
    (
        @register $visibility:vis $type:ident [$label:literal]
        $( $field:ident($name:expr, $unit:literal, $kind:expr, [$($help:expr)*]) )*
    ) => {
        impl $type {
            /// Registers the metrics of the peer `value`, or returns the registered ones.
            $visibility fn register(vitals: &$crate::Vitals, value: &str) -> Self {
                let label = ($label, value);
                Self { $( $field: vitals.register_labelled($name, $unit, $kind, $crate::metrics!(@help $($help)*), label), )* }
            }
        }
    };
}
