package suite

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/haul-project/haul/bench/peer"
	"github.com/haul-project/haul/bench/suite/record"
	"github.com/haul-project/haul/bench/tcpprog"
)

// The servers in a scenario exist: a misspelt one would silently not be measured.
func TestStreamsOfScenarios(t *testing.T) {
	known := peer.StreamNames()
	for _, sc := range slices.Concat(tcpScenarios(), tcpSmoke()) {
		if len(sc.Who.names) == 0 || sc.act == nil || sc.Size == 0 || sc.Title == "" || sc.Guess == 0 || !sc.Pinned || sc.Control == "" {
			t.Errorf("%s is not complete: %+v", sc.Name, sc)
		}
		for _, name := range sc.Who.names {
			if !slices.Contains(known, name) {
				t.Errorf("%s: nobody is called %q", sc.Name, name)
			}
		}
	}
}

// All of document 4's tests exist.
func TestDocument4(t *testing.T) {
	var got []string
	for _, s := range document4(tcpClients, tcpLength) {
		how := "kept"
		if s.Close {
			how = "each"
		}
		for what, is := range map[string]bool{"TLS": s.TLS, "AES": s.Encrypted, "1 ms": s.Delay == 1} {
			if is {
				how = what + " " + how
			}
		}
		if s.Concurrency != 1000 || s.Protocol != record.TCP {
			t.Errorf("%s is by %d clients of %q", s.Name, s.Concurrency, s.Protocol)
		}
		got = append(got, binaryName(s.Size/128*kiB)+" "+how) // in units of 128 bytes
	}
	want := []string{"8KiB each", "8KiB kept", "8KiB TLS each", "8KiB TLS kept", "8KiB AES each", "8KiB AES kept", "1KiB 1 ms kept", "128KiB each"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Contenders that support a scenario take part, and for files haul has one turn under the name
// haul.
func TestStreamsFor(t *testing.T) {
	all := peer.Trade{Answers: true, TLS: true, Files: true}
	set := peer.Set{Streams: []peer.Server{
		{Name: "haul", Trade: peer.Trade{Answers: true, TLS: true}}, {Name: "haul under net/http", Trade: all},
		{Name: "gnet", Trade: peer.Trade{Answers: true}}, {Name: "nginx", Trade: peer.Trade{Files: true, TLS: true}}, {Name: "another", Trade: all},
	}}
	names := func(sc Scenario) string {
		var all []string
		for _, c := range streamsFor(sc, set) {
			all = append(all, c.Name)
		}
		return strings.Join(all, ", ")
	}
	byName := make(map[string]Scenario)
	for _, s := range tcpScenarios() {
		byName[s.Name] = s
	}
	for name, want := range map[string]string{
		"tcp-each-1kB": "haul, haul under net/http, gnet", "tcp-tls-each-1kB": "haul, haul under net/http",
		"tcp-idle-1000": "haul, haul under net/http, gnet", "http-file": "haul, nginx", "https-file": "haul, nginx",
		"https-file-h2": "haul, nginx", "http-small-keep": "haul, nginx",
	} {
		if got := names(byName[name]); got != want {
			t.Errorf("%s: %s; want %s", name, got, want)
		}
	}
	set.Streams = append(set.Streams, peer.Server{Name: "haul serve", Trade: peer.Trade{Files: true}})
	if got := names(byName["http-file"]); got != "haul under net/http, nginx, haul" {
		t.Errorf("with a command that serves HTTP: %s", got)
	}
	if got := names(byName["https-file"]); got != "haul, nginx" {
		t.Errorf("with one that does not know TLS: %s", got)
	}
	tool := peer.Set{Streams: set.Streams, Tools: []peer.Tool{{Name: peer.Wrk, Version: "9"}}}
	if got := streamsFor(byName["tcp-each-1kB"], tool)[0].Client; got != "wrk 9" {
		t.Errorf("the load is made by %q", got)
	}
	if got := streamsFor(byName["tcp-each-1kB"], set)[0].Client; got != "tcpload" {
		t.Errorf("without wrk the load is made by %q", got)
	}
}

func TestLoadIn(t *testing.T) {
	const right = "Running 4s test\n  1 threads\n" + tcpprog.LoadPrefix + `{"requests":1000,"seconds":4.1,"connect":1,"read":2,"write":3,"status":4,"timeout":5,"p50_us":6,"p90_us":7,"p99_us":8,"max_us":9}` + "\n"
	l, err := loadIn([]byte(right))
	if err != nil || l.Requests != 1000 || l.Seconds != 4.1 || l.P99 != 8 || l.Failed() != 15 || l.Tried() != 1006 {
		t.Errorf("%+v, %v", l, err)
	}
	for _, wrong := range []string{"", "unable to connect\n", tcpprog.LoadPrefix + "x\n", tcpprog.LoadPrefix + "{}\n"} {
		if _, err := loadIn([]byte(wrong)); err == nil {
			t.Errorf("%q: no error", wrong)
		}
	}
	st := stage{sc: &Scenario{Scenario: record.Scenario{Load: record.Load{Size: 10}}}}
	tally := st.loadTally(l, peer.Usage{Wall: 4e9, CPU: 2e9})
	if tally.requests != 1000 || tally.bytes != 10_000 || tally.figures[record.Failed] != 15 || tally.figures[record.GeneratorCPU] != 0.5 || len(tally.warnings) != 5 {
		t.Errorf("%+v", tally)
	}
}

// The output of curl is kept completely for the largest number of transfers.
func TestTransfersAreKept(t *testing.T) {
	var out bounded
	for range guardSmall {
		fmt.Fprintf(&out, "%d %f %s\n", kiB, 0.5, httpVersion(false))
	}
	if _, err := transfersIn(out.b, guardSmall, kiB, httpVersion(false)); err != nil {
		t.Error(err)
	}
}

func TestTransfersIn(t *testing.T) {
	if s, err := transfersIn([]byte("100 0.5 2\n100 0.25 2\n"), 2, 100, "2"); s != 0.75 || err != nil {
		t.Errorf("%v s, %v", s, err)
	}
	for _, wrong := range []string{
		"", "100 0.5 2\n", "100 0.5 2\n99 0.5 2\n", "100\n100\n", "100 0 2\n100 0 2\n", "100 1 2\n100 1 2\n100 1 2\n",
		"100 0.5 2\n100 0.25 1.1\n", "100 0.5\n100 0.25\n",
	} {
		if _, err := transfersIn([]byte(wrong), 2, 100, "2"); err == nil {
			t.Errorf("%q: no error", wrong)
		}
	}
}

func TestStacksSaid(t *testing.T) {
	m := stacksSaid.FindStringSubmatch("haul: stacks of goroutines: 1234 bytes\n")
	if len(m) != 2 || m[1] != "1234" {
		t.Errorf("%q", m)
	}
}

// Each request on its own connection counts, and so does its CPU time.
func TestRequestFigures(t *testing.T) {
	st := stage{sc: &Scenario{Scenario: record.Scenario{Protocol: record.TCP}}}
	f := st.figures(tally{seconds: 2, requests: 1000, bytes: 1e6}, expense{server: 30e6}, 5e6)
	if f[record.RequestRate] != 500 || f[record.CPUPerRequest] != 30 {
		t.Errorf("%v", f)
	}
	for _, c := range []struct {
		l    record.Line
		sane bool
	}{
		{record.Line{Scenario: record.Scenario{Protocol: record.TCP}, Figures: f}, true},
		{record.Line{Scenario: record.Scenario{Protocol: record.TCP}}, false},
		{record.Line{Scenario: record.Scenario{Protocol: record.TCP, Requests: record.Requests{Idle: true}}, Figures: f}, false},
		{record.Line{Scenario: record.Scenario{Requests: record.Requests{Idle: true}}, Figures: map[record.Metric]float64{record.IdleMemory: 1}}, true},
	} {
		if err := Sane(c.l); (err == nil) != c.sane {
			t.Errorf("%+v: %v", c.l, err)
		}
	}
}
