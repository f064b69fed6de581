package protocol

import (
	"errors"
	"testing"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
)

// An asker is a machine of either kind that makes a request.
type asker interface {
	Handle(now time.Time, b []byte)
	AppendReply(now time.Time, b []byte) []byte
	Deadline() time.Time
	Expire(now time.Time)
	Done() (bool, error)
	Stats() transfer.Stats
}

// A reader is a Receiver that drops its chunks.
type reader struct{ *Receiver }

func (r reader) Handle(now time.Time, b []byte) { r.Receiver.Handle(now, b) }

// askers returns one machine of each kind, after a request at the given time.
func askers(now time.Time, offer transfer.Options) map[string]asker {
	r, s := new(Receiver), new(Sender)
	q := transfer.Request{Name: "f", Mode: transfer.Octet, Offer: offer}
	r.Request(now, q)
	s.Request(now, q, 1000)
	return map[string]asker{"read": reader{r}, "write": s}
}

// A lost request is repeated, at increasing intervals, and sooner if it is for a read.
func TestRequestIsRepeated(t *testing.T) {
	waits := map[string][]time.Duration{
		"read": {
			250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second,
			3 * time.Second, 3 * time.Second, 3 * time.Second, 3 * time.Second,
		},
		"write": {
			time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second,
			3 * time.Second, 3 * time.Second, 3 * time.Second, 3 * time.Second,
		},
	}
	for _, tt := range []struct {
		name  string
		offer transfer.Options
	}{
		{"no timeout", transfer.Options{}},
		{"1 s", transfer.Options{Timeout: time.Second}},
	} {
		began := time.Unix(1000, 0)
		for name, m := range askers(began, tt.offer) {
			now := began
			for i, wait := range waits[name] {
				if b := m.AppendReply(now, nil); len(b) == 0 {
					t.Fatalf("%s, %s: request %d is not made", name, tt.name, i)
				}
				if got := m.Deadline().Sub(now); got != wait {
					t.Errorf("%s, %s: waits %v after request %d, want %v", name, tt.name, got, i, wait)
				}
				now = m.Deadline()
				m.Expire(now)
			}
			if done, err := m.Done(); !done || !errors.Is(err, transfer.ErrSilent) {
				t.Errorf("%s, %s: after %d requests done is %v, %v", name, tt.name, len(waits[name]), done, err)
			}
		}
	}
}

// Once a repeated request is answered, the transfer uses its initial timer, not the one that was
// doubled for the request.
func TestAnsweredAtLast(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, m := range askers(now, transfer.Options{BlockSize: 1000}) {
		m.AppendReply(now, nil)
		for range 3 {
			now = m.Deadline()
			m.Expire(now)
			m.AppendReply(now, nil)
		}
		now = now.Add(time.Millisecond)
		m.Handle(now, appendOptionAck(nil, transfer.Options{BlockSize: 1000}))
		m.AppendReply(now, nil)
		if s, ok := m.(*Sender); ok {
			drain(s, now)
		}
		if got := m.Deadline().Sub(now); got != initialRTO {
			t.Errorf("%s: waits %v after the first answer, want %v", name, got, initialRTO)
		}
	}
}

// Requests of haul's own client are so far apart that haul's server answers each of them again.
func TestRepeatsAreAnswered(t *testing.T) {
	if min(readRTO, writeRTO) <= repeatGap {
		t.Errorf("a request is repeated after %v, and answered again after %v only", readRTO, repeatGap)
	}
}

// An ERROR about an unknown transfer ID does not refer to a request, which has no ID. If a peer
// sends the ERROR again after another request, the ERROR counts.
func TestUnknownIDBeforeAnswer(t *testing.T) {
	now := time.Unix(1000, 0)
	unknown := AppendError(nil, transfer.UnknownID, "no such transfer here")
	for name, m := range askers(now, transfer.Options{}) {
		m.AppendReply(now, nil)
		m.Handle(now, unknown)
		m.Handle(now, unknown) // a copy that the network made
		if done, err := m.Done(); done {
			t.Errorf("%s: they end it: %v", name, err)
		}
		if n := m.Stats().Strays; n != 2 {
			t.Errorf("%s: %d strays, want 2", name, n)
		}
		now := m.Deadline()
		m.Expire(now)
		m.AppendReply(now, nil)
		m.Handle(now, unknown)
		var e *transfer.Error
		if done, err := m.Done(); !done || !errors.As(err, &e) || e.Code != transfer.UnknownID || !e.Remote {
			t.Errorf("%s: after the second request done is %v, %v", name, done, err)
		}
	}
	for name, m := range askers(now, transfer.Options{}) {
		m.AppendReply(now, nil)
		m.Handle(now, AppendError(nil, transfer.FileNotFound, "no"))
		if done, _ := m.Done(); !done {
			t.Errorf("%s: continues after ERROR 1", name)
		}
	}
	// If the transfer has begun, the ERROR refers to it.
	for name, m := range askers(now, transfer.Options{BlockSize: 1000}) {
		m.AppendReply(now, nil)
		m.Handle(now, appendOptionAck(nil, transfer.Options{BlockSize: 1000}))
		m.Handle(now, unknown)
		if done, _ := m.Done(); !done {
			t.Errorf("%s: continues with a server that has forgotten it", name)
		}
	}
}
