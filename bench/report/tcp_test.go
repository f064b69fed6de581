package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/haul-project/haul/bench/suite"
	"github.com/haul-project/haul/bench/suite/record"
)

// tcpLines returns lines for all TCP scenarios: haul needs half as much as tcpserver, and gnet a
// little more than haul.
func tcpLines() []record.Line {
	var lines []record.Line
	for _, s := range suite.Full() {
		if s.Protocol != record.TCP {
			continue
		}
		for name, f := range map[string]float64{
			"haul": 30, "haul without DEFER_ACCEPT": 48, "haul events": 20, "haul events without DEFER_ACCEPT": 36, "tcpserver": 60, "gnet": 40, "goroutines": 50, "net/http": 80, "nginx": 25, tcpFloor: 40, tcpFloorDeferred: 24,
		} {
			if files := strings.HasPrefix(s.Group, "http-"); files != slices.Contains([]string{"haul", "net/http", "nginx", tcpFloor}, name) &&
				(files || name == "nginx") {
				continue
			}
			lines = append(lines, record.Line{Run: "r", Scenario: s.Scenario, Contender: record.Contender{Name: name, Client: "wrk 9"},
				Figures: map[record.Metric]float64{record.Rate: 1000 / f, record.RequestRate: 1e6 / f, record.CPUPerRequest: f, record.CPUPerGB: f / 10,
					record.LatencyP50: f * 2, record.LatencyP99: f * 3, record.IdleMemory: f, record.IdlePerConn: f / 10, record.IdleBeyondStacks: f / 10,
					record.Transfers: 1e6, record.Failed: 0, record.GeneratorCPU: 0.5, record.Memory: 10}})
		}
	}
	return lines
}

func tcpReport() *Report {
	r := &Report{files: []string{"tcp.jsonl"}}
	r.arrange(inRounds(tcpLines()))
	return r
}

func TestTCPReport(t *testing.T) {
	r := tcpReport()
	md := r.Markdown()
	for _, row := range []string{
		"| server | 1 kB, each | 1 kB, kept | 1 kB TLS, each | 1 kB TLS, kept | 1 kB AES, each | 1 kB AES, kept | 128 B after 1 ms, kept | 16 kB, each |",
		"| tcpserver | 60.0 | 60.0 | 60.0 | 60.0 | 60.0 | 60.0 | 60.0 | 60.0 |",
		"| tcpserver | 0.500 x | 0.500 x | 0.500 x | 0.500 x | 0.500 x | 0.500 x | 0.500 x | 0.500 x |",
		"| haul | 33,333 |",
		"| server | 1,000: MB | 1,000: kB each | 1,000: kB each beyond stacks | 1,000: failed | 10,000: MB |",
		"| net/http | 12.5 | 2.67 x | 8.00 | 0.375 x |",
		"| tcp-each-1kB | haul | 3 | 30.0 |",
		"| server | server CPU us/request | haul to it | requests/s | p50, ms | p99, ms | failed | peak memory, MB |",
		"| nginx | 25.0 | 1.20 x | 40,000 |",
		"| haul (TCP) |",
	} {
		if !strings.Contains(md, row) {
			t.Errorf("it does not have the row\n%s", row)
		}
	}
	if t.Failed() {
		t.Log(md)
	}
	for _, s := range r.Sections() {
		for _, p := range s.Plots {
			if p.draw == nil {
				continue // of one figure
			}
			if _, err := p.SVG(); err != nil {
				t.Errorf("%s: %v", s.Name, err)
			}
		}
	}
	// An unknown group would appear at the end, under its own name.
	for _, s := range suite.Full() {
		if s.Protocol == record.TCP && !slices.ContainsFunc(r.tcp(), func(in Section) bool { return in.Name == s.Group }) {
			t.Errorf("no section has the group %s", s.Group)
		}
	}
}

func TestTCPGoals(t *testing.T) {
	r := tcpReport()
	verdicts := make(map[string]Verdict)
	for _, v := range r.Judge(tcpGoals()) {
		verdicts[v.Title] = v
	}
	for _, c := range []struct {
		title  string
		want   Kind
		figure float64
	}{
		{"CPU, a connection for each request, half of tcpserver's", Reached, 0.5},
		{"CPU, a connection for each request, below every peer", Reached, 0.75},
		{"CPU, a connection for each request, against the floor", Missed, 1.25},
		{"CPU, a connection for each request, without DEFER_ACCEPT, against gnet", Reached, 1.2},
		{"CPU, connections kept, no more than tcpserver's", Reached, 0.5},
		{"CPU, connections kept, handlers that never wait, against gnet", Reached, 0.5},
		{"CPU, a connection for each request, handlers that never wait, without DEFER_ACCEPT, against gnet", Reached, 0.9},
		{"memory of an idle connection whose handler never waits, kB", Missed, 2},
		{"p50, below tcpserver's", Reached, 0.5},
		{"no request fails", Reached, 0},
		{"memory of an idle connection beyond its goroutine's stack, kB", Reached, 3},
		{"CPU, a file by HTTP, against sendfile in C", Reached, 0.75},
		{"CPU, a file by HTTP/2 over TLS, against nginx", Missed, 1.2},
		{"CPU, a file of 1 kB by HTTP, against net/http's FileServer", Reached, 0.375},
	} {
		v, ok := verdicts[c.title]
		if !ok {
			t.Errorf("no goal is called %q", c.title)
		}
		if v.Reached != c.want || v.Figure != c.figure {
			t.Errorf("%s: %s with %v (%s); want %s with %v", c.title, v.Reached, v.Figure, v.Why, c.want, c.figure)
		}
	}
}

// Without tcpserver, its goals are unknown, and the others are not.
func TestTCPGoalsWithoutPeers(t *testing.T) {
	r := &Report{}
	r.arrange(slices.DeleteFunc(inRounds(tcpLines()), func(l record.Line) bool { return l.Contender.Name == "tcpserver" }))
	for _, v := range r.Judge(tcpGoals()) {
		if want := v.Rival.name == "tcpserver"; (v.Reached == Unknown) != want {
			t.Errorf("%s: %s (%s)", v.Title, v.Reached, v.Why)
		}
	}
}

func TestTCPHeadlines(t *testing.T) {
	with := tcpReport().Headline()
	for _, row := range []string{
		"| 1 kB over TCP, 1,000 clients, a connection for each request | server us/request | 30.0 | 40.0 (gnet) | 0.750 x | 24.0 |",
		"| 10,000 idle connections | MB | 30.0 | 40.0 (gnet) | 0.750 x | 24.0 |",
	} {
		if !strings.Contains(with, row) {
			t.Errorf("it does not have the row\n%s\nbut:\n%s", row, with)
		}
	}
	if without := short("doc1-download").Headline(); strings.Contains(without, "TCP") {
		t.Errorf("without TCP:\n%s", without)
	}
}
