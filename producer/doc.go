// Package producer sends records to topics.
//
// [Producer.Send] puts a record into the open batch of its partition. A batch goes out when it is full, when it has lingered long enough, or when somebody waits
// for it ([Producer.Flush], a full buffer, Close). There is one sending task for each broker: a request carries one batch of each partition that has one
// ready.
//
// # What is promised
//
//   - Each record's callback runs once, with the outcome of its own batch: where it is (nil error), that it is surely not in the log, or
//     that nobody knows (ErrUnknown).
//   - Within a partition, batches are first sent in the order of the Send calls. A batch that failed goes back to the head of its
//     partition's queue. With MaxInFlight 1 nothing overtakes it, so retries never change the order; with more, batches that were already on
//     their way may get into the log before it.
//   - A request whose outcome is unknown is repeated, so records may be in the log twice.
//   - After a failure nothing is repeated before the back-off; the metadata is refreshed meanwhile.
//   - DeliveryTimeout bounds all of it: a record that is not in flight then fails.
package producer
