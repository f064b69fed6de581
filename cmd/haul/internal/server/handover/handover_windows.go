package handover

import (
	"context"
	"errors"
	"os"
)

// Windows has no signals to request a restart, and no descriptors to hand over.

// A Spawner starts children. Windows has no Spawner.
type Spawner struct{}

// StartSpawner fails.
func StartSpawner([]string) (*Spawner, error) { return nil, ErrNoRestart }

// FindSpawner returns nil.
func FindSpawner(bool) (*Spawner, error) { return nil, nil }

// IsInit reports false.
func (*Spawner) IsInit() bool { return false }

func (*Spawner) gone() <-chan struct{} { return nil }

// Serving does nothing.
func (*Spawner) Serving() {}

func (*Spawner) start(context.Context, []Socket) (*child, error) {
	return nil, errors.ErrUnsupported
}

func (*Spawner) begin(context.Context, *child) error { return errors.ErrUnsupported }

// Close does nothing.
func (*Spawner) Close() error { return nil }

type child struct{ pid int }

func (*child) again() error          { return nil }
func (*child) ended(string) error    { return nil }
func (*child) remember([]byte) error { return nil }
func (*child) Close() error          { return nil }

// A Predecessor hands its sockets to this process. On Windows there is no Predecessor.
type Predecessor struct{ History func([]byte) }

// FindPredecessor returns nil.
func FindPredecessor() (*Predecessor, error) { return nil, nil }

// Take returns nothing.
func (*Predecessor) Take() []Socket { return nil }

// Ready does nothing.
func (*Predecessor) Ready(context.Context, *Requests) error { return nil }

// Fail does nothing.
func (*Predecessor) Fail(error) {}

// ReportFailure does nothing.
func ReportFailure(error) {}

// Wait does nothing.
func (*Predecessor) Wait(context.Context, string) {}

// Hangup does nothing.
func (*Predecessor) Hangup() {}

// Close does nothing.
func (*Predecessor) Close() error { return nil }

// Requests receives requests for a successor. On Windows there are no such requests.
type Requests struct{ c chan os.Signal }

// NewRequests returns a Requests that never receives a request.
func NewRequests(bool) *Requests { return &Requests{} }

// Close does nothing.
func (*Requests) Close() {}

// TakeHangup reports false.
func TakeHangup() bool { return false }

// IsSpawner reports false.
func IsSpawner() (run func() (exitCode int), is bool) { return nil, false }
