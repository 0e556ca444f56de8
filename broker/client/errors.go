package client

import "errors"

// Every error of a request is exactly one of ErrNotSent and ErrUnknown (errors.Is), and wraps its cause, such as
// machine.ErrTimeout, machine.ErrConnReset or ErrClosed.
// An answer that carries Kafka error codes is no error here: callers read the codes (see kerr.ErrorForCode).
var (
	// ErrNotSent: the broker surely did not get the request.
	ErrNotSent = errors.New("request not sent")
	// ErrUnknown: the request was put on the wire, at least in part, and no answer came: it may or may not have been
	// carried out, or still be carried out later.
	ErrUnknown = errors.New("outcome unknown")
)

// Causes.
var (
	// ErrClosed: Close was called on this side.
	ErrClosed = errors.New("connection closed")
	// ErrUnsupported: the broker speaks no version of this request that we speak. Comes with ErrNotSent.
	ErrUnsupported = errors.New("request not supported by the broker")
	// ErrProtocol: the broker's bytes made no sense; the connection is closed.
	ErrProtocol = errors.New("protocol error")
	// ErrUnknownTopic: the cluster's fresh metadata has no such topic or partition.
	ErrUnknownTopic = errors.New("unknown topic or partition")
	// errMisfortune is what a failpoint reports.
	errMisfortune = errors.New("failpoint")

	// ErrNoLeader: the partition's broker is not registered now. Retry: the cluster paces the retries.
	ErrNoLeader = errors.New("no leader available")
)

// failure marks a cause as ErrNotSent or ErrUnknown.
type failure struct {
	kind  error // ErrNotSent or ErrUnknown
	cause error
}

func (f *failure) Error() string   { return f.kind.Error() + ": " + f.cause.Error() }
func (f *failure) Unwrap() []error { return []error{f.kind, f.cause} }

func notSent(cause error) error { return &failure{ErrNotSent, cause} }
func unknown(cause error) error { return &failure{ErrUnknown, cause} }

// stripped returns the cause behind an error's kind. A request on behalf of another (versions, metadata) must not hand its own kind on.
func stripped(err error) error {
	var f *failure
	if errors.As(err, &f) {
		return f.cause
	}
	return err
}
