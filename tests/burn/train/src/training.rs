//! Trainings whose validations have the losses of the case: when they stop, and which checkpoints they keep.

use std::collections::VecDeque;
use std::sync::Mutex;

use burn::data::dataloader::DataLoaderBuilder;
use burn::data::dataloader::batcher::Batcher;
use burn::data::dataset::InMemDataset;
use burn::lr_scheduler::constant::ConstantLr;
use burn::module::{Module, Param};
use burn::optim::SgdConfig;
use burn::tensor::{Device, Tensor};
use burn::train::checkpoint::*;
use burn::train::logger::InMemoryMetricLogger;
use burn::train::metric::LossMetric;
use burn::train::metric::store::{Aggregate, Direction, EventStoreClient, Split};
use burn::train::*;
use serde_json::{Value, json};

use crate::numbers_of;

static LOSSES: Mutex<VecDeque<f32>> = Mutex::new(VecDeque::new());
static NOTES: Mutex<Vec<Value>> = Mutex::new(Vec::new());

#[derive(Module, Debug)]
struct Model {
    weight: Param<Tensor<1>>,
}

#[derive(Clone, Debug)]
struct NoItem;

struct NoBatcher;

impl Batcher<NoItem, NoItem> for NoBatcher {
    fn batch(&self, _items: Vec<NoItem>, _device: &Device) -> NoItem {
        NoItem
    }
}

fn output(loss: Tensor<1>) -> RegressionOutput {
    let device = loss.device();
    RegressionOutput::new(
        loss,
        Tensor::zeros([1, 1], &device),
        Tensor::zeros([1, 1], &device),
    )
}

impl TrainStep for Model {
    type Input = NoItem;
    type Output = RegressionOutput;

    fn step(&self, _item: NoItem) -> TrainOutput<RegressionOutput> {
        let loss = self.weight.val().square().mean();
        TrainOutput::new(self, loss.backward(), output(loss))
    }
}

impl InferenceStep for Model {
    type Input = NoItem;
    type Output = RegressionOutput;

    fn step(&self, _item: NoItem) -> RegressionOutput {
        let loss = LOSSES
            .lock()
            .expect("losses")
            .pop_front()
            .expect("a loss for each epoch");
        output(Tensor::from_data([loss], &self.weight.device()))
    }
}

/// A checkpointer that keeps nothing: what is to be kept is noted by the strategy.
struct Nowhere;

impl<R: Checkpoint> Checkpointer<R> for Nowhere {
    fn save(&self, _epoch: usize, _record: R) -> Result<(), CheckpointerError> {
        Ok(())
    }

    fn delete(&self, _epoch: usize) -> Result<(), CheckpointerError> {
        Ok(())
    }

    fn restore(&self, _epoch: usize) -> Result<R, CheckpointerError> {
        Err(CheckpointerError::Unknown("nothing is kept".into()))
    }
}

/// A strategy that notes what it says.
#[derive(Clone)]
struct Noted<S>(S);

impl<S: EarlyStoppingStrategy> EarlyStoppingStrategy for Noted<S> {
    fn should_stop(&mut self, epoch: usize, store: &EventStoreClient) -> bool {
        let stops = self.0.should_stop(epoch, store);
        NOTES.lock().expect("notes").push(json!(stops));
        stops
    }
}

impl<S: CheckpointingStrategy> CheckpointingStrategy for Noted<S> {
    fn checkpointing(
        &mut self,
        epoch: usize,
        store: &EventStoreClient,
    ) -> Vec<CheckpointingAction> {
        let actions = self.0.checkpointing(epoch, store);
        let text = |it: &CheckpointingAction| match it {
            CheckpointingAction::Save => json!("save"),
            CheckpointingAction::Delete(epoch) => json!(epoch),
        };
        NOTES
            .lock()
            .expect("notes")
            .push(actions.iter().map(text).collect());
        actions
    }
}

fn direction_of(case: &Value) -> Direction {
    if case["direction"] == "highest" {
        Direction::Highest
    } else {
        Direction::Lowest
    }
}

fn training(n_batches: usize, n_epochs: usize) -> SupervisedTraining<Model> {
    let loader = |count| {
        DataLoaderBuilder::new(NoBatcher)
            .batch_size(1)
            .build(InMemDataset::new(vec![NoItem; count]))
    };
    SupervisedTraining::new(std::env::temp_dir(), loader(n_batches), loader(1))
        .num_epochs(n_epochs)
        .with_metric_logger(InMemoryMetricLogger::new())
        .with_application_logger(None)
        .metric_train_numeric(LossMetric::new())
        .metric_valid_numeric(LossMetric::new())
}

fn learner() -> Learner<Model> {
    let model = Model {
        weight: Param::from_tensor(Tensor::ones([1], &Device::default().autodiff())),
    };
    Learner::new(model, SgdConfig::new().init(), ConstantLr::new(0.125))
}

/// What the strategies that `configure` adds note, in a training of an epoch for each value of the case.
fn notes_of(
    case: &Value,
    configure: impl FnOnce(SupervisedTraining<Model>) -> SupervisedTraining<Model>,
) -> Value {
    let values = numbers_of(case);
    *LOSSES.lock().expect("losses") = values.iter().map(|it| *it as f32).collect();
    NOTES.lock().expect("notes").clear();
    configure(training(1, values.len())).launch(learner());
    json!(std::mem::take(&mut *NOTES.lock().expect("notes")))
}

/// The weight, at first 1, after an epoch of batches whose loss is its square, with gradients of several summed.
pub fn accumulated(case: &Value) -> Result<Value, String> {
    *LOSSES.lock().expect("losses") = [0.0].into();
    let size = |name: &str| case[name].as_u64().expect("a number") as usize;
    let result = training(size("batches"), 1)
        .grads_accumulation(size("accumulation"))
        .launch(learner());
    Ok(json!({ "weight": result.model.weight.val().into_scalar::<f32>() }))
}

/// Whether each epoch is the last one, until one is.
pub fn stopping(case: &Value) -> Result<Value, String> {
    let n_epochs = case["n_epochs"].as_u64().expect("n_epochs") as usize;
    let strategy = MetricEarlyStoppingStrategy::new(
        &LossMetric::new(),
        Aggregate::Mean,
        direction_of(case),
        Split::Valid,
        StoppingCondition::NoImprovementSince { n_epochs },
    )
    .with_warmup_epochs(case["warmup_epochs"].as_u64().map(|it| it as usize));
    Ok(json!({ "stops": notes_of(case, |training| training.early_stopping(Noted(strategy))) }))
}

/// What is saved and deleted after each epoch.
pub fn checkpoints(case: &Value) -> Result<Value, String> {
    let mut strategies = ComposedCheckpointingStrategy::builder();
    if let Some(count) = case["keep_last"].as_u64() {
        strategies = strategies.add(KeepLastNCheckpoints::new(count as usize));
    }
    if case["keep_best"] == true {
        let loss = LossMetric::new();
        strategies = strategies.add(MetricCheckpointingStrategy::new(
            &loss,
            Aggregate::Mean,
            direction_of(case),
            Split::Valid,
        ));
    }
    let configure = |training: SupervisedTraining<Model>| {
        training
            .with_custom_checkpointers(Nowhere, Nowhere, Nowhere)
            .with_checkpointing_strategy(Noted(strategies.build()))
    };
    Ok(json!({ "actions": notes_of(case, configure) }))
}
