package hooks

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/server/activity"
)

// Many events for one hook do not delay the others for long, and only events of that hook are
// dropped.
func TestTurns(t *testing.T) {
	turns := newTurns(3)
	for i := range 2 * maxQueue {
		if got := turns.add(waiting{hook: 0}); got != (i < maxQueue) {
			t.Fatalf("event %d: %v", i, got)
		}
	}
	for range 2 {
		if !turns.add(waiting{hook: 2}) {
			t.Fatal("there is no room for the other hook")
		}
	}
	var got []int
	for range 5 {
		<-turns.some
		got = append(got, turns.take().hook)
	}
	if want := []int{0, 2, 0, 2, 0}; !slices.Equal(got, want) {
		t.Errorf("the turns are %v, want %v", got, want)
	}
}

// Events of one source, such as wrong passwords, leave room for those of others. A peer whose login
// fails is one source, whatever users it names.
func TestTurnsOfSources(t *testing.T) {
	turns := newTurns(1)
	failed := func(i int, peer string) bool {
		return turns.add(waiting{event: activity.Event{Event: activity.LoginFailed, User: strconv.Itoa(i), Peer: peer}})
	}
	upload := func(user, peer string) bool {
		return turns.add(waiting{event: activity.Event{Event: activity.Uploaded, User: user, Peer: peer}})
	}
	added := 0
	for i := range maxQueue {
		if failed(i, fmt.Sprintf("[2001:db8::%x]:%d", i, i+1)) {
			added++
		}
	}
	if added != maxQueue/2 {
		t.Errorf("%d runs of one network wait, want %d", added, maxQueue/2)
	}
	if failed(0, "2001:db8::1") {
		t.Error("a peer without a port is another source")
	}
	if !upload("", "192.0.2.1:1") || !upload("alice", "[2001:db8::1]:1") {
		t.Error("there is no room for others")
	}
	for range maxQueue / 2 {
		<-turns.some
		turns.take()
	}
	if !failed(0, "[2001:db8::1]:1") {
		t.Error("there is no room when the runs have ended")
	}
}

// All hooks together have at most maxQueues waiting runs.
func TestTurnsBound(t *testing.T) {
	turns := newTurns(MaxHooks)
	for hook := range MaxHooks {
		for turns.add(waiting{hook: hook}) {
		}
	}
	if n := len(turns.some); n != maxQueues {
		t.Errorf("%d runs wait, want %d", n, maxQueues)
	}
}

// Each run is taken once, even if goroutines add and take at the same time.
func TestTurnsAtOnce(t *testing.T) {
	const hooks, each = 3, 1000
	turns := newTurns(hooks)
	var working sync.WaitGroup
	var taken [hooks]atomic.Int64
	for hook := range hooks {
		working.Go(func() {
			for range each {
				if !turns.add(waiting{hook: hook}) {
					t.Error("there is no room")
				}
			}
		})
		working.Go(func() {
			for range each {
				<-turns.some
				taken[turns.take().hook].Add(1)
			}
		})
	}
	working.Wait()
	for hook := range taken {
		if n := taken[hook].Load(); n != each {
			t.Errorf("%d runs of hook %d were taken, want %d", n, hook, each)
		}
	}
}

// Hooks that run the same program have separate shares, and so have users at the same address.
func TestSharesOfHooks(t *testing.T) {
	none := int64(0)
	hook := Hook{On: activity.HookKinds, Run: []string{"/bin/x"}}
	q := newQueue(Config{Hooks: []Hook{hook, hook}, Log: slog.New(slog.DiscardHandler)})
	defer q.log.Close()
	for _, user := range []string{"alice", "bob"} {
		before := len(q.waiting.some)
		for range 100 {
			q.Send(activity.Event{Event: activity.Failed, Time: time.Now(), Bytes: &none, Peer: "192.0.2.1:5", User: user})
		}
		if n := len(q.waiting.some) - before; n != 200 {
			t.Errorf("%d runs of %s's events wait", n, user)
		}
	}
}

// For events that strangers can cause, a source has a share of the runs. Runs for other events are
// not counted.
func TestShareOfRuns(t *testing.T) {
	none, some := int64(0), int64(1)
	for _, one := range []struct {
		event  activity.Event
		bounds bool
	}{
		{activity.Event{Event: activity.Boot, Peer: "192.0.2.1"}, true},
		{activity.Event{Event: activity.Boot, Machine: activity.Machine{MAC: "52:54:00:12:34:56"}}, true},
		{activity.Event{Event: activity.LoginFailed, Peer: "192.0.2.1"}, true},
		{activity.Event{Event: activity.Failed, Bytes: &none, Peer: "192.0.2.1:5"}, true},
		{activity.Event{Event: activity.Failed, Bytes: &some, Peer: "192.0.2.1:5"}, false},
		{activity.Event{Event: activity.Uploaded, Bytes: &none, Peer: "192.0.2.1:5"}, false},
		{activity.Event{Event: activity.Login, Peer: "192.0.2.1:5"}, false},
	} {
		var out bytes.Buffer
		q := newQueue(Config{Hooks: []Hook{{On: activity.HookKinds, Run: []string{"/bin/x"}}}, Log: slog.New(slog.NewTextHandler(&out, nil))})
		one.event.Time = time.Now()
		const sent = 500
		for range sent {
			q.Send(one.event)
		}
		waits := len(q.waiting.some)
		one.event.Peer = "192.0.2.2:1"
		q.Send(one.event)
		if others := len(q.waiting.some) - waits; others != 1 || (waits < sent) != one.bounds || waits == 0 || q.lost.Load() != int64(sent-waits) {
			t.Errorf("%s: %d runs of %d, %d lost, %d of another source", one.event.Event, waits, sent, q.lost.Load(), others)
		}
		q.few.Flush()
		q.log.Close()
		if strings.Contains(out.String(), "too many") != one.bounds {
			t.Errorf("%s: the log has %q", one.event.Event, out.String())
		}
	}
}
