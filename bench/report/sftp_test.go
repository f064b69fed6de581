package report

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/bench/suite"
	"github.com/haul-project/haul/bench/suite/record"
)

// sftpLines returns lines for all SFTP scenarios: haul is twice as fast as its peers, and
// pkg/sftp with its own server is much faster.
func sftpLines() []record.Line {
	var lines []record.Line
	for _, s := range suite.Full() {
		if s.Protocol != record.SFTP {
			continue
		}
		for name, f := range map[string]float64{"haul": 200, "haul to haul": 250, "OpenSSH sftp": 100, "pkg/sftp": 50, "pkg/sftp to pkg/sftp": 1000} {
			lines = append(lines, record.Line{Run: "r", Scenario: s.Scenario, Contender: record.Contender{Name: name, Client: name}, Series: []float64{1, f / 10},
				Figures: map[record.Metric]float64{record.Rate: f, record.DataRate: f, record.FileRate: f, record.Seconds: 200/f + s.RoundTrip/100,
					record.RoundTrips: 9, record.Login: 1, record.ClientCPUPerGB: 1, record.CPUPerGB: 2, record.ClientMemory: 20, record.Transfers: 1, record.Failed: 0}})
		}
	}
	return lines
}

func sftpReport() *Report {
	r := &Report{files: []string{"sftp.jsonl"}}
	r.arrange(inRounds(sftpLines()))
	return r
}

func TestSFTPReport(t *testing.T) {
	r := sftpReport()
	md := r.Markdown()
	for _, row := range []string{
		// Round trips are in columns; the best peer is one with a stock server.
		"| client | loopback | haul to it | 9 ms | haul to it | 20 ms | haul to it | 100 ms | haul to it |",
		"| OpenSSH sftp | 100 | 2.00 x | 100 | 2.00 x | 100 | 2.00 x | 100 | 2.00 x |",
		"| haul to the best peer | OpenSSH sftp | 2.00 x | OpenSSH sftp | 2.00 x | OpenSSH sftp | 2.00 x | OpenSSH sftp | 2.00 x |",
		// Tenths of a second.
		"| 0.1 | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 |",
		"| 0.2 | 20.0 | 25.0 | 10.0 | 5.00 | 100 |",
		"| 3.0 | 0 | 0 | 0 | 0 | 0 |",
		// A copy that takes a second more at 100 ms takes ten round trips.
		"| haul | 1.00 | 2.00 | 9.00 | 10.0 |",
		"| 32 KiB | 200 | 250 | 100 | 2.00 x | 50.0 | 4.00 x | 1000 | 0.200 x | 1.00 |",
		"| client | loopback | haul to it | 20 ms | haul to it |",
		"| whole file | 200 | 250 | 100 |",
		"| io.Copy | 200 | 250 | 100 |",
		"| requests | loopback | packets/MB | cores | lan100m | packets/MB | cores | 9 ms | packets/MB | cores |",
	} {
		if !strings.Contains(strings.ReplaceAll(md, "1,000", "1000"), row) {
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
		if s.Protocol == record.SFTP && !slices.Contains(sftpGroups, s.Group) {
			t.Errorf("no section has the group %s", s.Group)
		}
	}
}

// Haul with a stock server is also compared with peers that use one.
func TestSFTPGoals(t *testing.T) {
	r := sftpReport()
	verdict := func(title, who string) Verdict {
		t.Helper()
		for _, v := range r.Judge(sftpGoals()) {
			if v.Title == title && v.Contender == who {
				return v
			}
		}
		t.Fatalf("no goal is called %q", title)
		return Verdict{}
	}
	for _, c := range []struct {
		title, who string
		want       Kind
		figure     float64
	}{
		{"get over loopback, against the best client of a stock server", "haul", Reached, 2},
		{"1 GiB at 100 ms, against the best client of a stock server", "haul", Missed, 2},
		{"1 GiB at 100 ms, against the best peer", "haul to haul", Missed, 0.25},
		{"1 byte at 100 ms, round trips that it takes", "haul", Reached, 9},
		{"10,000 files of 4 KiB at 20 ms, against sftp -r", "haul", Missed, 2},
		{"File.Write with any buffer at 20 ms, against the whole file of the same size", "haul", Reached, 1},
		{"File.ReadFrom over loopback and at 20 ms, against pkg/sftp", "haul", Reached, 4},
		{"500 MiB with a server that is slow in CPU, against the best client", "haul", Reached, 2},
	} {
		if v := verdict(c.title, c.who); v.Reached != c.want || v.Figure != c.figure {
			t.Errorf("%s: %s with %v (%s); want %s with %v", c.title, v.Reached, v.Figure, v.Why, c.want, c.figure)
		}
	}
}

// The bound of the model is a row of the table, and the basis of a goal: 256 MiB take at least
// 1.6 s at 20 ms, if 200 MB/s are moved over loopback.
func TestSFTPBoundIsShown(t *testing.T) {
	r := sftpReport()
	least := r.sftpBound(r.of["sftp-get-rtt20"])
	if least < 1600*time.Millisecond || least > 1800*time.Millisecond {
		t.Errorf("the bound is %v", least)
	}
	if row := "| bound | - | "; !strings.Contains(r.Markdown(), row) {
		t.Errorf("it does not have the row\n%s", row)
	}
	for _, v := range r.Judge(sftpGoals()) {
		if v.Title == "get at 9, 20 and 100 ms, time against the model's bound" && v.Contender == "haul" && (v.Reached != Reached || !strings.Contains(v.Where, " s")) {
			t.Errorf("%v with %v: %s", v.Reached, v.Figure, v.Where)
		}
	}
}

// A report without SFTP has no row about it, not even one without figures.
func TestSFTPHeadlines(t *testing.T) {
	if with := sftpReport().Headline(); !strings.Contains(with, "1 GiB down at 100 ms") {
		t.Errorf("it does not have SFTP:\n%s", with)
	}
	if without := short("doc1-download").Headline(); strings.Contains(without, "SFTP") || !strings.Contains(without, "12 of 13 loads") {
		t.Errorf("without SFTP:\n%s", without)
	}
}
