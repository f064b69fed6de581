//go:build unix

package handover

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/system/fdline"
)

// patience is how long a test waits for an expected event.
const patience = time.Minute

// childVar makes this test binary the child of a test's spawner, in a role.
const childVar = "HAUL_TEST_CHILD"

func init() {
	if spawner, is := IsSpawner(); is {
		os.Exit(spawner())
	}
	if role := os.Getenv(childVar); role != "" {
		os.Exit(asChild(role))
	}
}

// die ends this process as kill -9 does.
func die() error { return syscall.Kill(os.Getpid(), syscall.SIGKILL) }

var childRoles = map[string]func(p *Predecessor) error{
	"dies at once": func(*Predecessor) error { return die() },
	"fails": func(p *Predecessor) error {
		p.Fail(errors.New("no such\nline,\r\n" + strings.Repeat("x", 2*fdline.MaxLine)))
		os.Exit(7)
		return nil
	},
	"talks nonsense": func(p *Predecessor) error {
		_, err := io.Copy(p.line, strings.NewReader(strings.Repeat("x", 2*fdline.MaxLine)))
		return err
	},
	"is never ready": func(p *Predecessor) error { return wantWord(p, "stop") },
	"dies when it is ready": func(p *Predecessor) error {
		_, err := p.line.Write([]byte("ready\n"))
		return errors.Join(err, die())
	},
	"dies at go": func(p *Predecessor) error {
		_, err := p.line.Write([]byte("ready\n"))
		return errors.Join(err, wantWord(p, "go"), die())
	},
	"never serves": func(p *Predecessor) error {
		_, err := p.line.Write([]byte("ready\n"))
		return errors.Join(err, wantWord(p, "go"), wantWord(p, "stop"))
	},
	"serves": func(p *Predecessor) error {
		r := NewRequests(false)
		if err := p.Ready(context.Background(), r); err != nil {
			return err
		}
		<-r.c // passed on
		fmt.Fprintln(os.Stderr, "the child got a request")
		p.Wait(context.Background(), "all")
		return nil
	},
}

func wantWord(p *Predecessor, word string) error {
	if p.lines.Scan(); p.lines.Text() != word {
		return fmt.Errorf("heard %q, want %q", p.lines.Text(), word)
	}
	return nil
}

// asChild runs this process in a role.
func asChild(role string) int {
	switch role {
	case reports:
		return report()
	case waits:
		time.Sleep(patience)
		return 0
	}
	p, err := FindPredecessor()
	if err == nil && p == nil {
		err = errors.New("there is no predecessor")
	}
	if err == nil {
		err = childRoles[role](p)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, role+":", err)
		return 1
	}
	return 0
}

// startRestarter starts a server that can have a child in a role. It runs until the test ends.
func startRestarter(t *testing.T, role string, r *Restarter) (log *bufio.Scanner, request func()) {
	t.Helper()
	t.Setenv(childVar, role)
	spawner, err := StartSpawner(os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	in.SetReadDeadline(time.Now().Add(patience))
	r.Spawner, r.Requests, r.Log = spawner, NewRequests(true), slog.New(slog.NewTextHandler(out, nil))
	r.Sockets = func() ([]Socket, error) { return nil, nil }
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		r.Requests.Close()
		r.Close()
		spawner.Close()
		in.Close()
		out.Close()
	})
	return bufio.NewScanner(in), func() {
		t.Helper()
		if !TakeHangup() {
			t.Error("SIGHUP is no request")
		}
	}
}

// If a child fails at any step, the server continues as before and logs the reason. If the next
// child fails, the same happens.
func TestChildFails(t *testing.T) {
	for _, c := range []struct {
		role string
		time time.Duration // how long the child may take to be ready
		says []string
	}{
		{"dies at once", patience, []string{"signal: killed"}},
		{"fails", patience, []string{"no such; line,; xxx", "exit status 7"}},
		{"talks nonsense", patience, []string{"wait for it: EOF"}},
		{"is never ready", time.Second, []string{"in 1s"}},
		{"dies when it is ready", patience, []string{"signal: killed"}},
		{"dies at go", patience, []string{"signal: killed"}},
		{"never serves", time.Second, []string{"in 1s"}},
	} {
		t.Run(c.role, func(t *testing.T) {
			forbidden := func() { t.Error("handed over") }
			r := &Restarter{Reload: true, ReadyTime: c.time, HandOver: func(int) { forbidden() }, Retire: forbidden}
			log, request := startRestarter(t, c.role, r)
			for again := range 2 {
				if again == 1 && c.time < patience {
					break // a spawner that has answered too late is not asked again
				}
				if again == 1 && c.role == "dies at go" && !testing.Short() {
					time.Sleep(killTime) // the spawner must still answer after the deadline of the previous kill has passed
				}
				request()
				for log.Scan() && !strings.Contains(log.Text(), "level=ERROR") {
				}
				for _, want := range append(c.says, "reload: there is no successor", "previous configuration") {
					if !strings.Contains(log.Text(), want) {
						t.Errorf("logged %.500s, want %q", log.Text(), want)
					}
				}
			}
			if r.Retired() || !r.Failed() {
				t.Errorf("retired: %v, failed: %v", r.Retired(), r.Failed())
			}
		})
	}
}

// If the spawner of a server exits, the server logs that at once, and again at each request, with
// advice.
func TestSpawnerEnds(t *testing.T) {
	r := &Restarter{Reload: true}
	log, request := startRestarter(t, "serves", r)
	wantError := func(want string) {
		t.Helper()
		for log.Scan() && !strings.Contains(log.Text(), "level=ERROR") {
		}
		if !strings.Contains(log.Text(), want) || !strings.Contains(log.Text(), "stop and start haul") {
			t.Errorf("logged %.500s, want %q and what helps", log.Text(), want)
		}
	}
	r.Spawner.Close()
	wantError("can have no successor")
	request()
	wantError("reload: there is no successor")
}

// A server hands over when its child serves, and process 1 becomes the child's parent. Requests
// that arrive later or in between are passed to the child.
func TestRequestPassedOn(t *testing.T) {
	retired := make(chan struct{})
	r := &Restarter{Retire: func() { close(retired) }}
	r.HandOver = func(int) {
		select {
		case <-r.Spawner.ended:
		default:
			t.Error("the spawner is still the child's parent")
		}
	}
	log, request := startRestarter(t, "serves", r)
	r.Sockets = func() ([]Socket, error) {
		request() // during the restart
		return nil, nil
	}
	request()
	<-retired
	for log.Scan() && !strings.Contains(log.Text(), "which gets the request") {
	}
	if log.Err() != nil {
		t.Error("the request that came during the restart was not passed on")
	}
	r.Ended("all")
}

// The second of three servers exits. It passes on the requests that the first server has sent by
// then, and the first server notices that it can send no more. No request is lost without a log
// line.
func TestRequestAtTheEnd(t *testing.T) {
	first, line := pair(t)
	next, last, err := fdline.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	defer last.Close()

	p := &Predecessor{line: line, lines: bufio.NewScanner(line), over: make(chan struct{}), ended: map[string]chan struct{}{}, serving: true}
	r := &Restarter{Requests: NewRequests(false), Predecessor: p, Log: slog.New(slog.DiscardHandler)}
	defer r.Requests.Close()
	r.next.Store(&child{line: next})
	a := &child{line: first}
	if err := a.again(); err != nil {
		t.Fatal(err)
	}
	go p.read(r.Requests)
	ended, end := context.WithCancel(t.Context())
	end()
	r.Run(ended)
	if err := a.again(); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("a request to a server that has ended: %v", err)
	}
	_ = next.Close()
	if got, err := io.ReadAll(last); string(got) != "again\n" || err != nil {
		t.Errorf("the last server got %q, %v", got, err)
	}
}

// SIGHUP ends the process unless a server has set Reload.
func TestHangup(t *testing.T) {
	r := NewRequests(false)
	if TakeHangup() {
		t.Error("taken without reload")
	}
	r.Close()
	r = NewRequests(true)
	for range 3 {
		if !TakeHangup() {
			t.Error("not taken")
		}
	}
	if len(r.c) != 1 {
		t.Errorf("%d requests wait, want 1", len(r.c))
	}
	r.terminals = append(r.terminals, -1) // a terminal that is gone
	if TakeHangup() {
		t.Error("taken though the terminal is gone")
	}
	r.Close()
	if TakeHangup() {
		t.Error("taken after the end")
	}
}

// If the child of a server has exited first, after a restart of its own, the server logs nothing
// when it cannot report its own end to the child.
func TestChildEndedFirst(t *testing.T) {
	line, theirs, err := fdline.Pair()
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	r := &Restarter{Log: slog.New(slog.NewTextHandler(&log, nil))}
	r.next.Store(&child{line: line})
	defer line.Close()
	r.Ended(HTTP)
	_ = theirs.Close() // the first line is unread, so the next two writes may fail with different errors
	r.Ended(HTTP)
	r.Ended(HTTP)
	if log.Len() > 0 {
		t.Errorf("logged %s", log.String())
	}
}

// A child gets the complete history, whatever else is on the line. It gets nothing if the history
// is too long or the predecessor dies meanwhile.
func TestRemember(t *testing.T) {
	requests := NewRequests(false)
	defer requests.Close()
	for _, c := range []struct {
		length int
		cut    bool
		want   int // expected number of calls
	}{{MaxHistory, false, 1}, {1, false, 1}, {historyChunk, false, 1}, {0, false, 0}, {MaxHistory + 1, false, 0}, {2 * historyChunk, true, 0}} {
		ours, line := pair(t)
		sent := bytes.Repeat([]byte{0, '\n', 0xff, 'x', 7}, c.length/5+1)[:c.length]
		calls := 0
		p := &Predecessor{line: line, lines: bufio.NewScanner(line), over: make(chan struct{}), ended: map[string]chan struct{}{}, serving: true, History: func(got []byte) {
			if calls++; !bytes.Equal(got, sent) {
				t.Errorf("%d bytes have become %d", len(sent), len(got))
			}
		}}
		go p.read(requests)
		n := &child{line: ours}
		var err error
		if c.cut {
			err = n.write("history " + base64.StdEncoding.EncodeToString(sent[:historyChunk]))
		} else {
			err = errors.Join(n.ended(HTTP), n.remember(sent), n.ended(SFTP))
		}
		if err != nil {
			t.Error(err)
		}
		_ = n.Close()
		<-p.over
		if calls != c.want {
			t.Errorf("%d bytes: remembered %d times", c.length, calls)
		}
		if len(p.ended) != 2 && !c.cut {
			t.Errorf("it knows of %d services that have ended", len(p.ended))
		}
		_ = line.Close()
	}
}

// A child that does not read for a while gets no history, but gets all later reports of the server.
func TestRememberSlowly(t *testing.T) {
	t.Parallel() // it waits most of the time
	if testing.Short() {
		t.Skip("it takes writeTime")
	}
	requests := NewRequests(false)
	defer requests.Close()
	ours, line := pair(t)
	n := &child{line: ours}
	if err := n.remember(make([]byte, MaxHistory)); err == nil {
		t.Fatal("the line has room for all of it")
	}
	p := &Predecessor{line: line, lines: bufio.NewScanner(line), over: make(chan struct{}), ended: map[string]chan struct{}{}, serving: true, History: func([]byte) {
		t.Error("a part of the history is taken for all of it")
	}}
	go p.read(requests)
	if err := errors.Join(n.ended(HTTP), n.ended(SFTP), n.Close()); err != nil {
		t.Error(err)
	}
	<-p.over
	if p.ended[HTTP] == nil || p.ended[SFTP] == nil {
		t.Errorf("it knows of %d services that have ended", len(p.ended))
	}
}

// A server of process 1 reports that it serves, and requests a child soon after. Process 1 may
// receive both lines at once.
func TestLinesTogether(t *testing.T) {
	ours, line := pair(t)
	server := &spawned{pid: os.Getpid(), ended: make(chan struct{})}
	s := &spawnState{init: true, children: map[int]*spawned{server.pid: server}}
	if _, err := ours.Write([]byte("serving\nkill\n")); err != nil {
		t.Fatal(err)
	}
	go s.serve(line, server)
	if err := ours.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if said, err := bufio.NewReader(ours).ReadString('\n'); said != "no successor was started\n" || err != nil {
		t.Errorf("process 1 said %q, %v", said, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != server {
		t.Error("process 1 does not know that the server serves")
	}
}
