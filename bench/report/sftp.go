package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/haul-project/haul/bench/suite/record"
)

// sftpGroups lists the groups of scenarios in the sections of this file.
var sftpGroups = []string{
	"sftp-get", "sftp-put", "sftp-get-ramp", "sftp-put-ramp", "sftp-tiny",
	"sftp-read", "sftp-write", "sftp-tree-get", "sftp-tree-put", "sftp-slow", "sftp-doc5", "sftp-doc5-server",
}

// sftp returns all sections about SFTP.
func (r *Report) sftp() []Section {
	return []Section{
		r.sftpFiles("sftp-get", "SFTP: one large file down"), r.sftpFiles("sftp-put", "SFTP: one large file up"),
		r.sftpRamps(), r.sftpTiny(), r.sftpBuffers(), r.sftpTrees(), r.sftpSlow(), r.nagle(),
	}
}

// distance returns a text about a scenario's link for the head of a column, such as "20 ms" or
// "loopback".
func distance(s *scenario) string {
	switch {
	case s.Link == "":
		return "loopback"
	case s.RoundTrip > 0 && s.Rate == 0 && strings.HasPrefix(s.Link, "rtt"):
		return strconv.FormatFloat(s.RoundTrip, 'f', -1, 64) + " ms"
	}
	return s.Link
}

// byDistance returns the scenarios of a group, sorted by round trip.
func (r *Report) byDistance(group string) []*scenario {
	all := r.group(group)
	slices.SortStableFunc(all, func(a, b *scenario) int { return cmp.Compare(a.RoundTrip, b.RoundTrip) })
	return all
}

// sftpFiles returns a section about large files, with contenders in rows and round trips in
// columns.
func (r *Report) sftpFiles(group, title string) Section {
	s := Section{
		Name: group, Title: title,
		Intro: "A column for each round trip. Each client works with a stock sshd unless its name says otherwise, all with one cipher. " +
			"The rate is that of the data, from the first that crosses the wire to the last, so that it compares with other distances. The rate of the whole command includes the time before and after. " +
			"The bound is that of a model: eight connections begin at once, as soon as a login can, and double what is under way each round trip, up to what the processors move over loopback.",
	}
	scenarios := r.byDistance(group)
	if len(scenarios) == 0 {
		return s
	}
	for _, p := range []part{
		{"rate", "MB/s of the data", record.DataRate},
		{"whole", "MB/s of the whole command, from its start to its end", record.Rate},
		{"login", "Seconds from the command's start to the first data", record.Login},
		{"client-cpu", "CPU of the client's processes, seconds for each GB", record.ClientCPUPerGB},
		{"server-cpu", "CPU of the server's processes, seconds for each GB", record.CPUPerGB},
		{"memory", "Peak memory of the client, MB", record.ClientMemory},
	} {
		versus := p.metric == record.DataRate || p.metric == record.ClientCPUPerGB
		t := r.distances(Table{Name: group + "-" + p.name, Caption: p.caption}, scenarios, p.metric, versus)
		if p.metric == record.Rate {
			t.Rows = append(t.Rows, r.boundRow(scenarios))
		}
		s.Tables = append(s.Tables, t)
	}
	for _, sc := range scenarios {
		s.Plots = append(s.Plots, r.bars("MB/s of the data, "+sc.Title, sc.Name, record.DataRate))
	}
	return s
}

// distances returns a table of the metric m with a column for each scenario. If versus is set, each
// scenario has a second column with the ratio of haul's figure to that of the row's contender, and
// the last row shows the ratio to the best peer.
func (r *Report) distances(t Table, scenarios []*scenario, m record.Metric, versus bool) Table {
	var columns []column
	for _, s := range scenarios {
		columns = append(columns, column{scenario: s.Name, metric: m, title: distance(s)})
		if versus {
			columns = append(columns, column{scenario: s.Name, metric: m, title: "haul to it", versus: true})
		}
	}
	t = r.byContender(t, "client", columns...)
	if !versus {
		return t
	}
	best := []string{"haul to the best peer"}
	for _, s := range scenarios {
		who, f := r.bestPeer(s.Name, m)
		best = append(best, cmp.Or(who, none), times(f))
	}
	t.Rows = append(t.Rows, Row{Cells: best, Kind: Ours})
	return t
}

// boundRow returns a row with the model's bound of the rate for each scenario, in MB/s.
func (r *Report) boundRow(scenarios []*scenario) Row {
	cells := []string{"bound"}
	for _, s := range scenarios {
		if s.RoundTrip == 0 {
			cells = append(cells, none) // over loopback, the rate shows only the speed of the processors
			continue
		}
		cells = append(cells, figure(float64(s.Size)/1e6/r.sftpBound(s).Seconds()))
	}
	return Row{Cells: cells, Kind: Floor}
}

// sftpBound returns the minimum time to move a scenario's file, according to the model. The model
// uses haul's rate over loopback as the rate of the processors, if that was measured.
func (r *Report) sftpBound(s *scenario) time.Duration {
	m := newSFTPModel(time.Duration(s.RoundTrip * float64(time.Millisecond)))
	near := "sftp-get-rtt0"
	if s.Write {
		near = "sftp-put-rtt0"
	}
	if f := r.get(near, "haul").median(record.DataRate); finite(f) && f > 0 {
		m.Rate = f * 1e6
	}
	return m.bound(s.Size)
}

// rampRows lists the steps of a series that the table shows, counted from 0.
var rampRows = []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 14, 19, 24, 29}

// sftpRamps returns the section about the speed in the first seconds.
func (r *Report) sftpRamps() Section {
	s := Section{
		Name: "sftp-ramp", Title: "SFTP: the first three seconds",
		Intro: "MB that crossed the wire in a tenth of a second, one round trip, so long after the first data. A transfer is stopped after 15 seconds; the bytes that it has moved count.",
	}
	for _, group := range []string{"sftp-get-ramp", "sftp-put-ramp"} {
		for _, sc := range r.group(group) {
			t := Table{Name: group, Caption: sc.Title, Head: []string{"until, s"}}
			who := contenders(sc)
			t.Head = append(t.Head, who...)
			for _, step := range rampRows {
				var cells []string
				for _, w := range who {
					cells = append(cells, figure(sc.of[w].step(step)))
				}
				t.add(strconv.FormatFloat(record.SeriesStep.Seconds()*float64(step+1), 'f', 1, 64), cells...)
			}
			s.Tables = append(s.Tables, t)
			s.Plots = append(s.Plots, r.ramp("MB in each tenth of a second, "+sc.Title, sc))
		}
	}
	return s
}

// step returns the median of element i of the rounds' series. If a series is shorter, its element
// counts as 0, because the transfer was over.
func (c *cell) step(i int) float64 {
	var all []float64
	for round := range c.rounds {
		if s := c.series[round]; i < len(s) {
			all = append(all, s[i])
		} else if len(s) > 0 {
			all = append(all, 0)
		}
	}
	return Median(all)
}

// sftpTiny returns the section about a file of one byte, which shows how many round trips a client
// needs.
func (r *Report) sftpTiny() Section {
	s := Section{
		Name: "sftp-tiny", Title: "SFTP: a file of one byte",
		Intro: "The time of the whole command. Round trips are the difference to its time over loopback, divided by 100 ms.",
	}
	const near, far = "sftp-tiny-rtt0", "sftp-tiny-rtt100"
	if r.of[near] == nil && r.of[far] == nil {
		return s
	}
	t := r.byContender(Table{Name: "sftp-tiny"}, "client",
		column{scenario: near, metric: record.Seconds, title: "loopback: s"},
		column{scenario: far, metric: record.Seconds, title: "100 ms: s"},
		column{scenario: far, metric: record.RoundTrips, title: "that is, round trips"})
	if r.of[near] != nil && r.of[far] != nil {
		t.Head = append(t.Head, "round trips but for loopback's time")
		for i := range t.Rows {
			who := t.Rows[i].Cells[0]
			away := r.get(far, who).median(record.Seconds) - r.get(near, who).median(record.Seconds)
			t.Rows[i].Cells = append(t.Rows[i].Cells, figure(away*1e3/r.of[far].RoundTrip))
		}
	}
	s.Tables = []Table{t}
	return s
}

// sftpBuffers returns a section with a table for each round trip and direction, with sizes of
// buffers in rows.
func (r *Report) sftpBuffers() Section {
	s := Section{
		Name: "sftp-buffers", Title: "SFTP: small buffers",
		Intro: "MB/s of programs that read or write a file with File.Read and File.Write and a buffer of this size, from opening it to closing it, for three seconds at the most. " +
			"Below are the same file copied by io.Copy, which uses File.WriteTo and File.ReadFrom, and moved as a whole by what is fastest in the library.",
	}
	for _, way := range []struct{ group, what string }{{"sftp-read", "File.Read"}, {"sftp-write", "File.Write"}} {
		near := make(map[string][]*scenario)
		var order []string
		for _, sc := range r.byDistance(way.group) {
			d := distance(sc)
			if near[d] == nil {
				order = append(order, d)
			}
			near[d] = append(near[d], sc)
		}
		for _, d := range order {
			slices.SortStableFunc(near[d], byBufferSize)
			name := way.group + "-" + strings.ReplaceAll(d, " ", "")
			s.Tables = append(s.Tables, r.buffers(Table{Name: name, Caption: way.what + ", " + d}, near[d]))
			s.Plots = append(s.Plots, r.byBuffer("MB/s of "+way.what+", "+d, near[d]))
		}
	}
	return s
}

func (r *Report) buffers(t Table, scenarios []*scenario) Table {
	who := contenders(scenarios...)
	t.Head = []string{"buffer"}
	for _, w := range who {
		t.Head = append(t.Head, w)
		if !isHaul(w) {
			t.Head = append(t.Head, "haul to it")
		}
	}
	t.Head = append(t.Head, "haul's CPU s/GB")
	var n notes
	for _, sc := range scenarios {
		var cells []string
		for _, w := range who {
			cells = append(cells, r.show(&n, sc.Name, w, record.Rate))
			if !isHaul(w) {
				cells = append(cells, r.versus(sc.Name, w, record.Rate))
			}
		}
		t.add(bufferName(sc), append(cells, figure(r.get(sc.Name, "haul").median(record.ClientCPUPerGB)))...)
	}
	t.Notes = n.lines()
	return t
}

// byBufferSize compares scenarios by the size of their buffer. Scenarios without a buffer come
// last.
func byBufferSize(a, b *scenario) int {
	rank := func(s *scenario) int { return cmp.Or(s.Buffer, math.MaxInt) }
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Name, b.Name))
}

// bufferName returns the name of a scenario's row: the size of the buffer, or how the file is moved
// without one.
func bufferName(s *scenario) string {
	switch {
	case s.Buffer > 0:
		return binaryBytes(s.Buffer)
	case strings.HasSuffix(s.Name, "-stream"):
		return "io.Copy"
	}
	return "whole file"
}

// binaryBytes formats a size in units of 1024.
func binaryBytes(n int) string {
	if n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

// sftpTrees returns the section about many small files.
func (r *Report) sftpTrees() Section {
	s := Section{
		Name: "sftp-tree", Title: "SFTP: many small files",
		Intro: "Files a second. A client that takes too long is stopped, and the files that it has moved until then count.",
	}
	for _, group := range []string{"sftp-tree-get", "sftp-tree-put"} {
		if all := r.byDistance(group); len(all) > 0 {
			s.Tables = append(s.Tables, r.distances(Table{Name: group, Caption: "Files a second: " + all[0].Title}, all, record.FileRate, true))
			for _, sc := range all {
				s.Plots = append(s.Plots, r.bars("Files a second, "+sc.Title, sc.Name, record.FileRate))
			}
		}
	}
	return s
}

// sftpSlow returns the section about a server with little CPU.
func (r *Report) sftpSlow() Section {
	s := Section{
		Name: "sftp-slow", Title: "SFTP: a server with little CPU",
		Intro: "A large file, while the server's processes together are held to a small share of one core. A transfer is stopped after 15 seconds; the bytes that it has moved count.",
	}
	for _, sc := range r.group("sftp-slow") {
		s.Tables = append(s.Tables, r.byContender(Table{Name: sc.Name + "-figures", Caption: sc.Title}, "client",
			column{scenario: sc.Name, metric: record.DataRate},
			column{scenario: sc.Name, metric: record.DataRate, title: "haul to it", versus: true},
			column{scenario: sc.Name, metric: record.Rate, title: "whole command: MB/s"},
			column{scenario: sc.Name, metric: record.CPUPerGB, title: "server CPU s/GB"},
			column{scenario: sc.Name, metric: record.ClientCPUPerGB, title: "client CPU s/GB"},
		))
		s.Plots = append(s.Plots, r.bars("MB/s of the data, "+sc.Title, sc.Name, record.DataRate))
	}
	return s
}

// nagle returns the section about TCP_NODELAY and overlapping requests.
func (r *Report) nagle() Section {
	s := Section{
		Name: "sftp-doc5", Title: "SFTP: TCP_NODELAY, and requests that overlap",
		Intro: "Package sftp with a stock sshd, which has TCP_NODELAY, and with a server around package sftp with TCP_NODELAY and without, on either side: MB/s of the data with requests of 8 KiB, of which one and so many more are under way, and with haul's own number and size of requests. " +
			"Packets are those on the wire, both ways, for each MB; cores are those that client and server keep busy.",
	}
	for _, by := range []struct{ group, server string }{{"sftp-doc5", "a stock sshd"}, {"sftp-doc5-server", "package sftp"}} {
		for _, way := range []struct{ word, title string }{{"down", "Downloads from "}, {"up", "Uploads to "}} {
			var columns []column
			for _, sc := range r.byDistance(by.group) {
				if strings.Contains(sc.Name, "-"+way.word+"-") {
					columns = append(columns, column{scenario: sc.Name, metric: record.DataRate, title: distance(sc)},
						column{scenario: sc.Name, metric: record.PacketsPerMB, title: "packets/MB"},
						column{scenario: sc.Name, metric: record.CoresBusy, title: "cores"})
				}
			}
			if len(columns) > 0 {
				s.Tables = append(s.Tables, r.byContender(Table{Name: by.group + "-" + way.word, Caption: way.title + by.server}, "requests", columns...))
			}
		}
	}
	return s
}

// ramp draws the series of a scenario: the MB of each step.
func (r *Report) ramp(title string, s *scenario) Plot {
	var curves []curve
	for _, who := range contenders(s) {
		c := curve{name: who, style: r.pen(who)}
		for _, step := range rampRows {
			if f := s.of[who].step(step); finite(f) && f > 0 {
				at := math.Round(record.SeriesStep.Seconds() * 1e3 * float64(step+1))
				c.points = append(c.points, xy(at, f))
			}
		}
		curves = append(curves, c)
	}
	return linePlot(title, "ms after the first data", "MB", curves)
}

// byBuffer draws throughput over the size of a buffer.
func (r *Report) byBuffer(title string, scenarios []*scenario) Plot {
	x := func(s *scenario) float64 { return float64(s.Buffer) / (1 << 10) }
	var curves []curve
	for _, who := range contenders(scenarios...) {
		curves = append(curves, curve{who, r.pen(who), points(scenarios, who, record.Rate, x)})
	}
	return linePlot(title, "KiB at once", "MB/s", curves)
}
