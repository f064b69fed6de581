package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/haul-project/haul/bench/suite/record"
)

// Sections returns the sections of the report in order. Sections without measurements have
// no tables.
func (r *Report) Sections() []Section {
	all := []Section{
		r.environment(), r.goalSection(), r.threeFiles(),
		r.many("many", "Many downloads at once"), r.many("many-up", "Many uploads at once"),
		r.goAndC(), r.loops(), r.windows(), r.windowSizes(), r.losses(),
	}
	all = append(all, r.emulator())
	for _, l := range links {
		all = append(all, r.linkSection(l))
	}
	all = append(all, r.clients(), r.besides())
	all = append(append(all, r.sftp()...), r.tcp()...)
	return append(all, r.others(all)...)
}

// threeFiles returns the section about three simultaneous files, with haul's client and with a
// stock client.
func (r *Report) threeFiles() Section {
	s := Section{
		Name: "doc1", Title: "Three files at once",
		Intro: "Three files of 10 MB at once, in 512-byte blocks, each acknowledged before the next. Seconds a file, and server CPU for each DATA packet with its acknowledgement.",
	}
	for _, way := range []struct{ of, title string }{{"doc1-download", "Downloads"}, {"doc1-upload", "Uploads"}} {
		stock := way.of + "-stock"
		if r.of[way.of] == nil && r.of[stock] == nil {
			continue
		}
		t := r.byContender(Table{Name: way.of, Caption: fmt.Sprintf("%s (%s)", way.title, r.title(way.of, stock))}, "server",
			column{scenario: way.of, metric: record.SecondsPerFile, title: "haul's client: s a file"},
			column{scenario: way.of, metric: record.SecondsPerFile, title: "haul to it", versus: true},
			column{scenario: way.of, metric: record.CPUPerPacket},
			column{scenario: stock, metric: record.SecondsPerFile, title: "tftp-hpa client: s a file"},
			column{scenario: stock, metric: record.SecondsPerFile, title: "haul to it", versus: true},
			column{scenario: stock, metric: record.CPUPerPacket},
		)
		s.Tables = append(s.Tables, t)
		s.Plots = append(s.Plots, r.bars(way.title+": seconds a file with haul's client", way.of, record.SecondsPerFile))
	}
	return s
}

// title returns the title of the first of the named scenarios that was measured. If no named
// scenario was measured, it returns the names.
func (r *Report) title(names ...string) string {
	for _, n := range names {
		if s := r.of[n]; s != nil {
			return s.Title
		}
	}
	return strings.Join(names, ", ")
}

// load returns the load of a scenario with many files as a text for the head of a column, such as
// "100 x 1 MB".
func load(s *scenario) string {
	return fmt.Sprintf("%s x %s", whole(float64(s.Concurrency)), bytesOf(s.Size))
}

func bytesOf(n int64) string {
	if n%1e6 == 0 {
		return fmt.Sprintf("%d MB", n/1e6)
	}
	return strconv.FormatFloat(float64(n)/1e3, 'f', -1, 64) + " kB"
}

// many returns a section about a group with one table for each metric, because one table has no
// room for all metrics.
func (r *Report) many(group, title string) Section {
	s := Section{
		Name: group, Title: title,
		Intro: "Lock-step with 512-byte blocks. A column's first number is how many transfers are under way at the same time, the second the size of each file.",
	}
	s.Tables = r.matrix(group, []part{
		{"cpu", "Server CPU for each DATA packet, us", record.CPUPerPacket},
		{"rate", "DATA packets a second", record.PacketRate},
		{"failures", "Failed transfers, all rounds together", record.Failed},
		{"memory", "Peak memory of the server, MB", record.Memory},
	})
	if len(s.Tables) > 0 {
		s.Plots = []Plot{r.byConcurrency(title+": server CPU for a DATA packet", group)}
	}
	return s
}

// A part describes a table with one metric.
type part struct {
	name, caption string
	metric        record.Metric
}

// matrix returns a table for each part, with contenders in rows and the scenarios of a group in
// columns.
func (r *Report) matrix(group string, parts []part) []Table {
	var all []Table
	scenarios := r.group(group)
	slices.SortStableFunc(scenarios, func(a, b *scenario) int {
		return cmp.Or(cmp.Compare(a.Concurrency, b.Concurrency), cmp.Compare(a.Size, b.Size))
	})
	for _, p := range parts {
		var columns []column
		for _, s := range scenarios {
			columns = append(columns, column{scenario: s.Name, metric: p.metric, title: load(s)})
		}
		if len(columns) > 0 {
			all = append(all, r.byContender(Table{Name: group + "-" + p.name, Caption: p.caption}, "server", columns...))
		}
	}
	return all
}

// goAndC returns the section about the cost of Go compared with C.
func (r *Report) goAndC() Section {
	s := Section{
		Name: "go-vs-c", Title: "Go against C",
		Intro: "The floors are small C programs that make only the system calls that are needed: no timers, no disk, files in memory as packets. " +
			"goserver is an ordinary Go server: a goroutine and a socket for each transfer.",
	}
	s.Tables = r.matrix("go-vs-c", []part{
		{"cpu", "Server CPU for each DATA packet, us", record.CPUPerPacket},
		{"rate", "DATA packets a second", record.PacketRate},
	})
	if len(s.Tables) > 0 {
		s.Plots = []Plot{r.byConcurrency("Go against C: server CPU for a DATA packet", "go-vs-c")}
	}
	return s
}

// loops returns the section about one event loop compared with two.
func (r *Report) loops() Section {
	return Section{
		Name: "loops", Title: "One loop and two",
		Intro: "Each loop has its own socket, transfers and timers. Where there are two, transfers go to the second when the first is busy.",
		Tables: r.matrix("loops", []part{
			{"cpu", "Server CPU for each DATA packet, us", record.CPUPerPacket},
			{"rate", "DATA packets a second", record.PacketRate},
			{"p99", "99th percentile of a transfer, ms", record.LatencyP99},
		}),
	}
}

// windows returns the section about one large file at a time.
func (r *Report) windows() Section {
	s := Section{Name: "window", Title: "One file in windows", Intro: "Servers that know windowsize, over loopback, one file at a time."}
	for _, sc := range r.group("window") {
		s.Tables = append(s.Tables, r.byContender(Table{Name: sc.Name, Caption: sc.Title}, "server",
			column{scenario: sc.Name, metric: record.Rate},
			column{scenario: sc.Name, metric: record.Rate, title: "haul to it", versus: true},
			column{scenario: sc.Name, metric: record.CPUPerPacket},
			column{scenario: sc.Name, metric: record.CPUPerPacket, title: "haul to it", versus: true},
			column{scenario: sc.Name, metric: record.GigabitsPerCore},
			column{scenario: sc.Name, metric: record.Failed},
		))
		s.Plots = append(s.Plots, r.bars("MB/s, "+sc.Title, sc.Name, record.Rate))
	}
	return s
}

// windowSizes returns a section with a row for each windowsize.
func (r *Report) windowSizes() Section {
	s := Section{Name: "windowsize", Title: "Windowsize 1 to 128", Intro: "One download over loopback, blksize 1468."}
	scenarios := byWindow(r.group("windowsize"))
	if len(scenarios) == 0 {
		return s
	}
	for _, p := range []part{
		{"rate", "MB/s", record.Rate}, {"cpu", "Server CPU for each DATA packet, us", record.CPUPerPacket},
	} {
		who := contenders(scenarios...)
		t := Table{Name: "windowsize-" + p.name, Caption: p.caption, Head: append([]string{"windowsize"}, who...)}
		var n notes
		for _, sc := range scenarios {
			var cells []string
			for _, w := range who {
				cells = append(cells, r.show(&n, sc.Name, w, p.metric))
			}
			t.add(strconv.Itoa(sc.Window), cells...)
		}
		t.Notes = n.lines()
		s.Tables = append(s.Tables, t)
	}
	s.Plots = []Plot{r.byWindowsize("MB/s by windowsize, over loopback", scenarios, nil)}
	return s
}

// byWindow returns the scenarios that have a windowsize, sorted by it.
func byWindow(all []*scenario) []*scenario {
	some := slices.DeleteFunc(all, func(s *scenario) bool { return s.Window == 0 })
	slices.SortStableFunc(some, func(a, b *scenario) int { return a.Window - b.Window })
	return some
}

// emulator returns the section that shows how far measurements over an emulated link can be
// trusted.
func (r *Report) emulator() Section {
	s := Section{
		Name: "emulator", Title: "The emulated links",
		Intro: "A block of 1,432 bytes and its acknowledgement, one after the other; a stream of 1500-byte packets, one in a system call, with what the emulator took of a core; and what ping and iperf3 say.",
	}
	scenarios := r.group("emulator")
	if len(scenarios) == 0 {
		return s
	}
	metrics := []record.Metric{
		record.CycleProfile, record.CycleP50, record.CycleOff, record.CycleP99,
		record.LinkRateProfile, record.LinkRate, record.LinkCPU, record.Ping, record.IPerf3,
	}
	t := Table{Name: "emulator-accuracy", Head: []string{"profile"}}
	for _, m := range metrics {
		t.Head = append(t.Head, unitOf(m).short)
	}
	var n notes
	for _, sc := range scenarios {
		var cells []string
		for _, m := range metrics {
			cells = append(cells, r.show(&n, sc.Name, "emulator", m))
		}
		t.add(sc.Link, cells...)
	}
	t.Notes = n.lines()
	s.Tables = []Table{t}
	return s
}

func (r *Report) losses() Section {
	s := Section{Name: "loss", Title: "Loss", Intro: "The load generator drops packets at random, both ways, the same ones for each server."}
	for _, sc := range r.group("loss") {
		s.Tables = append(s.Tables, r.byContender(Table{Name: sc.Name, Caption: sc.Title}, "server",
			column{scenario: sc.Name, metric: record.Seconds, title: "s for all"},
			column{scenario: sc.Name, metric: record.Seconds, title: "haul to it", versus: true},
			column{scenario: sc.Name, metric: record.LatencyP50},
			column{scenario: sc.Name, metric: record.LatencyMax},
			column{scenario: sc.Name, metric: record.Timeouts},
			column{scenario: sc.Name, metric: record.Failed},
		))
	}
	return s
}

// clients returns the section about stock clients with haul's server.
func (r *Report) clients() Section {
	s := Section{Name: "clients", Title: "Stock clients over a link"}
	for _, sc := range r.group("clients") {
		s.Tables = append(s.Tables, r.byContender(Table{Name: sc.Name, Caption: sc.Title}, "client",
			column{scenario: sc.Name, metric: record.Rate},
			column{scenario: sc.Name, metric: record.SecondsPerFile},
			column{scenario: sc.Name, metric: record.Failed},
		))
	}
	return s
}

// besides returns the section about delays of small downloads while the server does other work.
func (r *Report) besides() Section {
	s := Section{
		Name: "beside", Title: "Beside something else",
		Intro: "The time of small downloads while the server has another load, in milliseconds for a whole transfer.",
	}
	scenarios := r.group("beside")
	if len(scenarios) == 0 {
		return s
	}
	s.Intro += " Alone: " + scenarios[0].Title + "."
	who := contenders(scenarios...)
	t := Table{Name: "beside-latency", Head: []string{"beside"}}
	for _, w := range who {
		t.Head = append(t.Head, w+" p50", "p99", "failed")
	}
	var n notes
	for _, sc := range scenarios {
		var cells []string
		for _, w := range who {
			for _, m := range []record.Metric{record.LatencyP50, record.LatencyP99, record.Failed} {
				cells = append(cells, r.show(&n, sc.Name, w, m))
			}
		}
		t.add(disturbanceOf(sc), cells...)
	}
	t.Notes = n.lines()
	s.Tables = []Table{t}
	s.Plots = []Plot{r.ranges("Small downloads: from p50 to p99, ms", scenarios)}
	return s
}

// disturbanceOf returns the last part of a scenario's title, which names the other work of the
// server.
func disturbanceOf(s *scenario) string {
	_, after, found := strings.Cut(s.Title, ", beside ")
	if !found {
		return s.Beside
	}
	return after
}

// others returns sections for the groups of scenarios that are in no other section, so that no
// scenario is hidden if the report is older than the suite.
func (r *Report) others(listed []Section) []Section {
	known := slices.Clone(sftpGroups)
	for _, s := range listed {
		known = append(known, s.Name, s.Name+"+loss")
	}
	var all []Section
	for _, name := range r.order {
		sc := r.of[name]
		if slices.Contains(known, sc.Group) {
			continue
		}
		t := r.byContender(Table{Name: sc.Name, Caption: sc.Title}, "contender",
			column{scenario: name, metric: record.Rate}, column{scenario: name, metric: record.Seconds},
			column{scenario: name, metric: record.CPUPerPacket}, column{scenario: name, metric: record.CPUPerGB},
			column{scenario: name, metric: record.Memory}, column{scenario: name, metric: record.Failed},
		)
		i := slices.IndexFunc(all, func(s Section) bool { return s.Name == sc.Group })
		if i < 0 {
			all = append(all, Section{Name: sc.Group, Title: sc.Group})
			i = len(all) - 1
		}
		all[i].Tables = append(all[i].Tables, t)
	}
	return all
}
