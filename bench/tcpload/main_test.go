package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/haul-project/haul/bench/tcpprog"
)

// server runs a responder, and returns its address and the number of connections it has had.
func server(t *testing.T, o tcpprog.Options) (addr string, conns *atomic.Int64) {
	t.Helper()
	r, err := tcpprog.NewResponder(o)
	if err != nil {
		t.Fatal(err)
	}
	o.Listen = "127.0.0.1:0"
	l, err := o.Listener(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conns = new(atomic.Int64)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Add(1)
			go func() {
				defer c.Close()
				r.Serve(c)
			}()
		}
	}()
	return l.Addr().String(), conns
}

func TestCheck(t *testing.T) {
	kept, _ := server(t, tcpprog.Options{Size: 1024})
	closed, conns := server(t, tcpprog.Options{Size: 1024, Close: true, Encrypted: true})
	for _, c := range []struct{ args, want string }{
		{"check -addr " + kept, ""},
		{"check -close -encrypted -addr " + closed, ""},
		{"check -size 1023 -addr " + kept, "wrong answer"},
		{"check -encrypted -addr " + kept, "wrong answer"},
		{"check -close -addr " + kept, "to be closed"},
		{"check -encrypted -addr " + closed, "to be closed"},
		{"look", "cannot"},
		{"", "first argument"},
		{"hold -n 0", "-n"},
		{"load -for 1h", "-for"},
	} {
		err := run(t.Context(), strings.Fields(c.args), nil, io.Discard)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.args, err, c.want)
		}
	}
	if n := conns.Load(); n < 3 {
		t.Errorf("%d connections for 3 requests", n)
	}
}

// Hold reports when its connections are open, and keeps them until it has to end.
func TestHold(t *testing.T) {
	const n = 200
	addr, conns := server(t, tcpprog.Options{Size: 10})
	in, end := io.Pipe()
	out, said := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- run(t.Context(), []string{"hold", "-addr", addr, "-size", "10", "-n", "200", "-for", "30s"}, in, said)
		said.Close()
	}()
	line := make([]byte, 100)
	got, err := out.Read(line)
	if err != nil || string(line[:got]) != "open 200\n" {
		t.Fatalf("it said %q, %v", line[:got], err)
	}
	if conns.Load() != n {
		t.Errorf("%d connections, want %d", conns.Load(), n)
	}
	end.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Failed connections are reported: their number, and the first reason.
func TestHoldFails(t *testing.T) {
	addr, _ := server(t, tcpprog.Options{Size: 10})
	var out bytes.Buffer
	err := run(t.Context(), []string{"hold", "-addr", addr, "-size", "11", "-n", "3"}, strings.NewReader(""), &out)
	if out.String() != "open 0\n" || err == nil || !strings.Contains(err.Error(), "3 of 3 connections failed") {
		t.Errorf("it said %q, %v", &out, err)
	}
}

func load(t *testing.T, args ...string) tcpprog.Load {
	t.Helper()
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := run(ctx, append([]string{"load"}, args...), nil, &out); err != nil {
		t.Fatal(err)
	}
	text, ok := strings.CutPrefix(out.String(), tcpprog.LoadPrefix)
	var l tcpprog.Load
	if err := json.Unmarshal([]byte(text), &l); !ok || err != nil {
		t.Fatalf("it printed %q: %v", &out, err)
	}
	return l
}

// loadOf makes a load for a while, and a longer one if that was not enough, because the machine
// may be busy.
func loadOf(t *testing.T, enough func(tcpprog.Load) bool, args ...string) tcpprog.Load {
	t.Helper()
	l := load(t, append(args, "-for", "300ms")...)
	if !enough(l) {
		l = load(t, append(args, "-for", "10s")...)
	}
	return l
}

func TestLoad(t *testing.T) {
	for _, each := range []bool{false, true} {
		var l tcpprog.Load
		got := 0.0
		for _, length := range []string{"300ms", "10s"} { // the machine may be busy
			addr, conns := server(t, tcpprog.Options{Size: 100, Close: each})
			args := []string{"-addr", addr, "-size", "100", "-n", "4", "-for", length}
			if each {
				args = append(args, "-close")
			}
			l = load(t, args...)
			if got = float64(conns.Load()); l.Requests >= 4 && got >= 4 {
				break
			}
		}
		if l.Requests < 4 || l.Failed() != 0 || l.Tried() != l.Requests || l.Seconds < 0.3 {
			t.Errorf("%+v", l)
		}
		if l.P50 <= 0 || l.P50 > l.P90 || l.P90 > l.P99 || l.P99 > l.Max*growth {
			t.Errorf("latencies %v, %v, %v, %v", l.P50, l.P90, l.P99, l.Max)
		}
		if each && got < l.Requests || !each && got != 4 {
			t.Errorf("%v connections for %v requests", got, l.Requests)
		}
	}
}

// Failures are counted by kind, and a request that fails at once is not repeated without a pause.
func TestLoadCountsFailures(t *testing.T) {
	addr, _ := server(t, tcpprog.Options{Size: 100})
	wrong := func(l tcpprog.Load) bool { return l.Status > 0 }
	if l := loadOf(t, wrong, "-addr", addr, "-size", "99", "-n", "2"); l.Status == 0 || l.Status != l.Requests {
		t.Errorf("wrong answers: %+v", l)
	}
	if l := loadOf(t, wrong, "-addr", addr, "-size", "100", "-close", "-n", "2"); l.Status == 0 {
		t.Errorf("answers that do not close: %+v", l)
	}
	gone, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	l := load(t, "-addr", gone.Addr().String(), "-n", "2", "-for", "200ms")
	if l.Connect == 0 || l.Connect > 100 || l.Requests != 0 {
		t.Errorf("nobody listens: %+v", l)
	}
}

// A bucket is no wider than documented, from a microsecond to half an hour.
func TestBuckets(t *testing.T) {
	for d := time.Microsecond; d < 30*time.Minute; d = d*21/20 + 1 {
		us := float64(d) / 1e3
		if got := middle(bucketOf(d)); got < us/growth || got > us*growth {
			t.Fatalf("%v is shown as %v us", d, got)
		}
	}
	if bucketOf(0) != 0 || bucketOf(1000*time.Hour) != buckets-1 {
		t.Error("what is out of bounds is not in the outer buckets")
	}
}
