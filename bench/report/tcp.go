package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/haul-project/haul/bench/suite/record"
)

// The names of the TCP floors. The second one learns of a connection only when its client has sent
// something.
const (
	tcpFloor         = "floor-tcp"
	tcpFloorDeferred = "floor-tcp DEFER_ACCEPT"
)

// tcp returns all sections about TCP and HTTP.
func (r *Report) tcp() []Section {
	return []Section{r.tcpLoads(), r.tcpIdle(), r.httpFiles(), r.httpSmall()}
}

// request returns a text about a scenario's requests for the head of a column, such as "1 kB TLS,
// each".
func request(s *scenario) string {
	what := fmt.Sprintf("%d B", s.Size)
	if s.Size%1024 == 0 {
		what = fmt.Sprintf("%d kB", s.Size/1024)
	}
	switch {
	case s.TLS:
		what += " TLS"
	case s.Encrypted:
		what += " AES"
	case s.Delay > 0:
		what += " after " + strconv.FormatFloat(s.Delay, 'f', -1, 64) + " ms"
	}
	if s.Close {
		return what + ", each"
	}
	return what + ", kept"
}

// tcpLoads returns the section about document 4's tests, with a table for each metric.
func (r *Report) tcpLoads() Section {
	s := Section{
		Name: "tcp", Title: "TCP: document 4's tests",
		Intro: "1,000 connections at the same time: a new one for each request (each), or the same ones throughout (kept). The server has one core, the load generator another. " +
			"Compare the server's cost of a request: the generator bounds the requests a second too, if it takes all of its core. " +
			"haul is set to expect that clients speak first (TCP_DEFER_ACCEPT), unless its name says otherwise; of the others only those whose name says so.",
	}
	scenarios := r.group("tcp")
	if len(scenarios) == 0 {
		return s
	}
	for _, p := range []struct {
		part
		versus bool
	}{
		{part{"cpu", "Server CPU for a request, us", record.CPUPerRequest}, false},
		{part{"cpu-ratio", "Server CPU for a request, haul's to each", record.CPUPerRequest}, true},
		{part{"rate", "Requests a second", record.RequestRate}, false},
		{part{"p50", "Time of the middle request, ms, without that to connect", record.LatencyP50}, false},
		{part{"p99", "Time that 99 % of the requests keep within, ms", record.LatencyP99}, false},
		{part{"failures", "Failed requests, all rounds together", record.Failed}, false},
		{part{"generator", "CPU of the load generator, of its core", record.GeneratorCPU}, false},
		{part{"memory", "Peak memory of the server, MB", record.Memory}, false},
	} {
		var columns []column
		for _, sc := range scenarios {
			columns = append(columns, column{scenario: sc.Name, metric: p.metric, title: request(sc), versus: p.versus})
		}
		t := r.byContender(Table{Name: "tcp-" + p.name, Caption: p.caption}, "server", columns...)
		if len(s.Tables) > 0 { // only the first table lists the contenders that take no part
			t.Notes = slices.DeleteFunc(t.Notes, func(n string) bool { return strings.HasSuffix(n, (*cell)(nil).lacking(p.metric)) })
		}
		s.Tables = append(s.Tables, t)
	}
	for _, sc := range scenarios {
		s.Plots = append(s.Plots, r.bars("Server CPU for a request, us: "+sc.Title, sc.Name, record.CPUPerRequest))
	}
	return s
}

// tcpIdle returns the section about the cost of silent connections.
func (r *Report) tcpIdle() Section {
	s := Section{
		Name: "tcp-idle", Title: "TCP: idle connections",
		Intro: "Memory of the server (PSS, without the kernel's) two seconds after so many connections were opened, each of which made one request and stays open. " +
			"A kB has 1,000 bytes. The program itself reports the memory of goroutines' stacks for a connection; the last column leaves it out.",
	}
	scenarios := r.group("tcp-idle")
	slices.SortStableFunc(scenarios, func(a, b *scenario) int { return cmp.Compare(a.Concurrency, b.Concurrency) })
	var columns []column
	for _, sc := range scenarios {
		n := whole(float64(sc.Concurrency)) + ": "
		columns = append(columns,
			column{scenario: sc.Name, metric: record.IdleMemory, title: n + "MB"},
			column{scenario: sc.Name, metric: record.IdlePerConn, title: n + "kB each"},
			column{scenario: sc.Name, metric: record.IdleBeyondStacks, title: n + "kB each beyond stacks"},
			column{scenario: sc.Name, metric: record.Failed, title: n + "failed"})
		s.Plots = append(s.Plots, r.bars("MB with "+sc.Title, sc.Name, record.IdleMemory))
	}
	if len(columns) > 0 {
		s.Tables = []Table{r.byContender(Table{Name: "tcp-idle-memory"}, "server", columns...)}
	}
	return s
}

// httpFiles returns the section about a large file over HTTP.
func (r *Report) httpFiles() Section {
	s := Section{
		Name: "http-file", Title: "HTTP: one large file",
		Intro: "By curl, to nowhere, over one connection. The server has one core, curl another. Over TLS all use version 1.3 with AES-128-GCM.",
	}
	for _, sc := range r.group("http-file") {
		s.Tables = append(s.Tables, r.byContender(Table{Name: sc.Name + "-figures", Caption: sc.Title}, "server",
			column{scenario: sc.Name, metric: record.Rate},
			column{scenario: sc.Name, metric: record.Rate, title: "haul to it", versus: true},
			column{scenario: sc.Name, metric: record.CPUPerGB, title: "server CPU s/GB"},
			column{scenario: sc.Name, metric: record.CPUPerGB, title: "haul to it", versus: true},
			column{scenario: sc.Name, metric: record.ClientCPUPerGB, title: "curl's CPU s/GB"},
			column{scenario: sc.Name, metric: record.Memory, title: "peak memory, MB"},
		))
		s.Plots = append(s.Plots, r.bars("MB/s, "+sc.Title, sc.Name, record.Rate))
	}
	return s
}

// tcpGoals returns the goals for TCP servers.
func tcpGoals() []Goal {
	const source, theirs = "TCP", "tcpserver"
	cpu := record.CPUPerRequest
	to := func(name string) rival { return rival{kind: contender, name: name} }
	each, keep := named("tcp-", "each-1kB", "aes-each-1kB", "each-16kB"), named("tcp-", "keep-1kB", "aes-keep-1kB", "sleep-keep-128B")
	tls, idle := named("tcp-", "tls-each-1kB", "tls-keep-1kB"), named("tcp-idle-", "1000", "10000")
	all := slices.Concat(each, keep, tls)
	return []Goal{
		{"CPU, a connection for each request, half of tcpserver's", source, each, "", cpu, to(theirs), atMost, 0.5},
		{"CPU, a connection for each request, below every peer", source, each, "", cpu, rival{kind: bestPeer}, below, 1},
		{"CPU, a connection for each request, against the floor", source, each, "", cpu, to(tcpFloorDeferred), atMost, 1.2},
		{"CPU, a connection for each request, without DEFER_ACCEPT, against gnet", source, each, "haul without DEFER_ACCEPT", cpu, to("gnet"), atMost, 1.2},
		{"CPU, connections kept, no more than tcpserver's", source, keep, "", cpu, to(theirs), atMost, 1},
		{"CPU, connections kept, handlers that never wait, against gnet", source, named("tcp-", "keep-1kB", "aes-keep-1kB"), "haul events", cpu, to("gnet"), below, 1},
		{"CPU, a connection for each request, handlers that never wait, without DEFER_ACCEPT, against gnet", source, each, "haul events without DEFER_ACCEPT", cpu, to("gnet"), atMost, 1.2},
		{"memory of an idle connection whose handler never waits, kB", source, idle, "haul events", record.IdlePerConn, rival{}, atMost, 1.024},
		{"p50, below tcpserver's", source, all, "", record.LatencyP50, to(theirs), below, 1},
		{"no request fails", source, all, "", record.Failed, rival{}, atMost, 0},
		{"no idle connection fails", source, idle, "", record.Failed, rival{}, atMost, 0},
		{"memory of an idle connection beyond its goroutine's stack, kB", source, idle, "", record.IdleBeyondStacks, rival{}, atMost, 4.096},
		{"CPU, a file by HTTP, against sendfile in C", "HTTP", []string{"http-file"}, "", record.CPUPerGB, to(tcpFloor), atMost, 1.1},
		{"CPU, a file by HTTP/2 over TLS, against nginx", "HTTP", []string{"https-file-h2"}, "", record.CPUPerGB, to("nginx"), atMost, 1},
		{"throughput, a file by HTTP/2 over TLS, against nginx", "HTTP", []string{"https-file-h2"}, "", record.Rate, to("nginx"), atLeast, 1},
		{"CPU, a file of 1 kB by HTTP, against net/http's FileServer", "HTTP", []string{"http-small-keep"}, "", cpu, to("net/http"), atMost, 0.7},
		{"throughput, a file by HTTP, against sendfile in C", "HTTP", []string{"http-file"}, "", record.Rate, to(tcpFloor), atLeast, 0.9},
	}
}

// everythingTCP returns a table like that of the method everything, for scenarios with requests.
func (r *Report) everythingTCP() Table {
	t := Table{Name: "all-tcp", Caption: "Each scenario of requests over TCP, likewise", Words: 2,
		Head: []string{"scenario", "contender", "rounds", "us/request", "spread", "requests/s", "spread", "p50 ms", "p99 ms", "haul to it, us/request", "failed", "generator CPU"}}
	for _, sc := range r.group("tcp") {
		for _, who := range contenders(sc) {
			c := sc.of[who]
			cpu, rate := c.spread(record.CPUPerRequest), c.spread(record.RequestRate)
			t.add(sc.Name, who, strconv.Itoa(len(c.rounds)), figure(cpu.Median), cpu.String(), whole(rate.Median), rate.String(),
				figure(c.median(record.LatencyP50)), figure(c.median(record.LatencyP99)), r.versus(sc.Name, who, record.CPUPerRequest),
				whole(c.sum(record.Failed)), percent(c.median(record.GeneratorCPU)))
			if isHaul(who) {
				t.Rows[len(t.Rows)-1].Kind = Ours
			}
		}
	}
	return t
}
