package top

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/server/status"
)

const (
	// plainColumns and plainRows are the size of a screen that is printed only once. They leave
	// room for all rows.
	plainColumns = 120
	plainRows    = 1000

	// maxFailures and maxMachines limit how many failures and machines are listed on a terminal.
	maxFailures = 5
	maxMachines = 8

	barWidth = 12 // the width of a transfer's bar, including both ends
)

// A column describes one column of the table of transfers.
type column struct {
	head  string
	width int
	from  int // minimum width of the terminal, in characters, for the column to be shown
	text  func(t *status.Transfer) string
}

var columns = []column{
	{"PROTOCOL", 11, 70, func(t *status.Transfer) string { return strings.ToUpper(t.Protocol) + " " + t.Direction }},
	{"DONE", 5, 0, percent},
	{"MOVED", 9, 50, func(t *status.Transfer) string { return console.FormatBytes(t.Bytes) }},
	{"RATE", 11, 30, func(t *status.Transfer) string { return console.FormatRate(t.Rate) }},
	{"WINDOW", 6, 88, func(t *status.Transfer) string { return some(int64(t.Window), t.Window > 0) }},
	{"TRIP", 8, 96, trip},
	{"RESENT", 6, 80, func(t *status.Transfer) string { return some(t.Resent, t.Window > 0) }},
}

// lines returns the lines that show a state: the server, its protocols, stuck machines, the latest
// failures, and as many transfers as fit.
func (s state) lines(c console.Canvas) []string {
	head := s.head()
	machines, failures := s.machineLines(), s.failureLines()
	if c.Rows < plainRows {
		machines, failures = first(machines, maxMachines), first(failures, maxFailures)
	}
	// Users look for the transfers first. So drop other lines until there is room for four
	// transfers.
	for len(head)+len(machines)+len(failures)+6 > c.Rows && len(machines)+len(failures) > 0 {
		if len(failures) > 0 {
			failures = failures[:len(failures)-1]
		} else {
			machines = machines[:len(machines)-1]
		}
	}
	all := append(append(head, machines...), failures...)
	all = append(all, s.transferLines(c.Columns, c.Rows-len(all))...)
	for i := range all {
		all[i] = strings.TrimRight(console.Clip(all[i], c.Columns), " ")
	}
	return all[:min(len(all), max(c.Rows, 1))]
}

func first(lines []string, most int) []string { return lines[:min(len(lines), most)] }

// head returns the lines about the server and its protocols.
func (s state) head() []string {
	title := "haul " + console.Visible(s.info.Version)
	if s.info.Host != "" {
		title += " on " + console.Visible(s.info.Host)
	}
	title += ", up " + s.info.Time.Sub(s.info.Started).Round(time.Second).String()
	if s.info.Draining {
		title += ", ending"
	}
	lines := []string{title}
	if s.lost != "" {
		lines = append(lines, "no answer: "+console.Visible(s.lost))
	}
	for _, p := range s.info.Protocols {
		lines = append(lines, fmt.Sprintf("%-6s%5d under way %11s  %s moved, %d ended, %d failed", strings.ToUpper(console.Visible(p.Protocol)), p.Live, console.FormatRate(p.Rate), console.FormatBytes(p.Bytes), p.Ended, p.Failed))
		var away []string
		for _, why := range slices.Sorted(maps.Keys(p.TurnedAway)) {
			away = append(away, fmt.Sprint(p.TurnedAway[why], " ", console.Visible(string(why))))
		}
		if len(away) > 0 {
			lines = append(lines, "  turned away: "+strings.Join(away, ", "))
		}
	}
	return lines
}

// machineLines returns lines with the number of machines at each stage, and with the stuck
// machines.
func (s state) machineLines() (lines []string) {
	if len(s.machines.Machines) == 0 {
		return nil
	}
	var counts []string
	for _, stage := range status.Stages() {
		if n := s.machines.Stages[stage]; n > 0 {
			counts = append(counts, fmt.Sprint(n, " ", stage))
		}
	}
	lines = append(lines, "machines: "+strings.Join(counts, ", "))
	for _, m := range s.machines.Machines {
		if m.Stage == "stuck" {
			age := time.Duration(m.Age * float64(time.Second)).Round(time.Second)
			lines = append(lines, console.Visible(fmt.Sprintf("  stuck: %s %s %s, nothing for %v after %s", m.MAC, m.Address, m.Arch, age, m.Before)))
		}
	}
	return lines
}

// failureLines returns a line for each failure, the latest first.
func (s state) failureLines() (lines []string) {
	for _, f := range s.failures.Failures {
		cause := f.Result
		if f.Cause != "" {
			cause += ": " + f.Cause
		}
		lines = append(lines, fmt.Sprintf("failed %s %s", f.Time.Local().Format("15:04:05"), console.Visible(fmt.Sprintf("%s %s from %s: %s", f.Direction, f.File, f.Peer, cause))))
	}
	return lines
}

// transferLines returns the table of transfers, in at most the given number of rows.
func (s state) transferLines(width, rows int) (lines []string) {
	list := s.transfers.Transfers
	if len(list) == 0 {
		return []string{"nothing is under way"}
	}
	beside := 0
	for _, c := range columns {
		if width >= c.from {
			beside += 1 + c.width
		}
	}
	bar := width >= 110
	if bar {
		beside += 1 + barWidth
	}
	rest := width - beside
	peerWidth := 0
	if width >= 60 {
		peerWidth = min(rest/2, 24)
	}
	nameWidth := max(rest-peerWidth-min(peerWidth, 1), 1)
	line := func(name, peer string, text func(c *column) string, drawn string) string {
		cells := []string{console.Pad(name, nameWidth)}
		if peerWidth > 0 {
			cells = append(cells, console.Pad(console.Clip(peer, peerWidth), peerWidth))
		}
		if bar {
			cells = append(cells, console.Pad(drawn, barWidth))
		}
		for i := range columns {
			if c := &columns[i]; width >= c.from {
				cell := text(c)
				cells = append(cells, strings.Repeat(" ", max(c.width-console.Columns(cell), 0))+cell)
			}
		}
		return strings.Join(cells, " ")
	}
	lines = append(lines, line(console.Clip("FILE", nameWidth), "PEER", func(c *column) string { return c.head }, ""))
	left := rows - 1 // the rows below the heading
	if s.transfers.Total > left {
		left--
	}
	shown := list[:min(len(list), max(left, 0))]
	for i := range shown {
		t := &shown[i]
		lines = append(lines, line(label(t.File, nameWidth), console.Visible(who(t)), func(c *column) string { return console.Visible(c.text(t)) }, drawBar(t)))
	}
	if more := s.transfers.Total - len(shown); more > 0 && rows > len(lines) {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return lines
}

// label shortens a name to a width. It removes the beginning of a long name, because names of files
// in one directory often begin with the same letters.
func label(name string, width int) string {
	name = console.Visible(name)
	if console.Columns(name) <= width {
		return name
	}
	for console.Columns(name) >= width && name != "" {
		_, size := utf8.DecodeRuneInString(name)
		name = name[size:]
	}
	return "…" + name
}

func drawBar(t *status.Transfer) string {
	if t.Size == nil {
		return ""
	}
	return console.Bar(t.Bytes, *t.Size, barWidth, false)
}

func percent(t *status.Transfer) string {
	if t.Size == nil || *t.Size <= 0 {
		return console.Unknown
	}
	return fmt.Sprintf("%d %%", int(100*float64(min(t.Bytes, *t.Size))/float64(*t.Size)))
}

func trip(t *status.Transfer) string {
	if t.RoundTrip <= 0 {
		return console.Unknown
	}
	return console.FormatDuration(time.Duration(t.RoundTrip * float64(time.Second))).String()
}

func some(n int64, known bool) string {
	if !known {
		return console.Unknown
	}
	return strconv.FormatInt(n, 10)
}

func who(t *status.Transfer) string {
	if t.User == "" {
		return t.Peer
	}
	return t.User + " at " + t.Peer
}
