package status

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
)

// These constants bound the content of the page. The answers for programs have no such bounds.
const (
	maxRows        = 200 // maximum number of rows in the table of transfers, and in the table of machines
	maxFailureRows = 100
	maxShownName   = 80 // longest file name that is shown in full, in characters

	// slots is the number of parts that the table splits the hour into, and slotSamples is the
	// number of samples in each part.
	slots       = 12
	slotSamples = samples / slots
)

// A view is a snapshot as text for people. The template inserts this text into the page, and the
// script updates the page with it. So each value is formatted in one place only.
type view struct {
	Title, Host, Version string
	Server               string // identifies the server's process; if the process changes, the script loads the page again
	State                string
	Up                   string
	Protocols            table
	Transfers            table
	Chart                chart
	Hour                 table
	Failures             table
	Machines             *table // nil if the server does not answer boot clients
	sections             sections
}

// A table has a caption, headings and rows.
type table struct {
	ID      string   `json:"-"`
	Caption string   `json:"-"`
	Heads   []string `json:"-"`
	Note    string   `json:"note"`
	Rows    []row    `json:"rows"`
}

// A row is a row of a table. Rows about the same transfer, protocol or machine always have the same
// key.
type row struct {
	Key   string `json:"k"`
	Bad   bool   `json:"b,omitempty"` // the row needs attention
	Cells []cell `json:"c"`
}

// A cell holds a text and a progress percentage. A negative percentage means that there is no
// progress to show.
type cell struct {
	Text    string
	Percent int
}

// MarshalJSON encodes the text or, if there is a percentage, the text and the percentage.
func (c cell) MarshalJSON() ([]byte, error) {
	if c.Percent < 0 {
		return json.Marshal(c.Text)
	}
	return json.Marshal([]any{c.Text, c.Percent})
}

func cells(texts ...string) (all []cell) {
	for _, t := range texts {
		all = append(all, cell{t, -1})
	}
	return all
}

// page returns the view of a snapshot.
func (s *snapshot) page(b *Board) *view {
	s.once.Do(func() {
		s.view = newView(b.info(s), s, b.hour(), b.failures.list())
	})
	return s.view
}

func newView(i Info, s *snapshot, hour Series, failed []Failure) *view {
	v := &view{
		Title: "haul status", Host: i.Host, Version: i.Version, Server: strconv.FormatInt(i.Started.UnixNano(), 36), State: "serving",
		Up:        "up for " + i.Time.Sub(i.Started).Round(time.Second).String() + ", at " + i.Time.Format("2006-01-02 15:04:05") + " UTC",
		Protocols: totalsTable(i.Protocols), Transfers: transfersTable(s.transfers), Chart: newChart(hour), Hour: hourTable(hour), Failures: failuresTable(failed),
	}
	if i.Host != "" {
		v.Title = "haul on " + i.Host
	}
	if i.Draining {
		v.State = "ending: it accepts nothing more, and waits for transfers"
	}
	all := []section{
		{"server", v.Server}, {"state", v.State}, {"up", v.Up}, {"protocols", v.Protocols}, {"transfers", v.Transfers}, {"chart", v.Chart}, {"hour", v.Hour}, {"failures", v.Failures},
	}
	if s.machines != nil {
		m := machinesTable(s.machines, s.stages)
		v.Machines = &m
		all = append(all, section{"machines", m})
	}
	v.sections = newSections(all)
	return v
}

func totalsTable(all []Totals) table {
	t := table{ID: "protocols", Caption: "Protocols", Heads: []string{"Protocol", "Under way", "Rate", "Moved", "Ended", "Failed", "Turned away"}}
	var why []string
	for _, p := range all {
		away := int64(0)
		for _, reason := range slices.Sorted(maps.Keys(p.TurnedAway)) {
			n := p.TurnedAway[reason]
			away += n
			why = append(why, fmt.Sprintf(" %s turned away %s: %s.", strings.ToUpper(p.Protocol), console.Plural(n, "request"), limitOf(p.Protocol, reason)))
		}
		t.Rows = append(t.Rows, row{Key: p.Protocol, Cells: cells(strings.ToUpper(p.Protocol), number(p.Live), console.FormatRate(p.Rate), console.FormatBytes(p.Bytes), number(p.Ended), number(p.Failed), number(away))})
	}
	t.Note = "Moved, ended, failed and turned away count from the start of the server." + strings.Join(why, "")
	return t
}

func transfersTable(all []Transfer) table {
	t := table{ID: "transfers", Caption: "Transfers under way", Heads: []string{"File", "Peer", "Protocol", "Moved", "Rate", "Window", "Round trip", "Resends"}, Note: "Nothing is under way."}
	for _, one := range all[:min(len(all), maxRows)] {
		moved := cell{console.FormatBytes(one.Bytes), -1}
		if one.Size != nil {
			moved = cell{moved.Text + " of " + console.FormatBytes(*one.Size), int(100 * float64(one.Bytes) / float64(*one.Size))}
		}
		c := append(cells(short(one.File), who(one.Peer, one.User), strings.ToUpper(one.Protocol)+" "+one.Direction), moved)
		window, trip, resent := console.Unknown, console.Unknown, console.Unknown
		if one.Window > 0 {
			window, resent = strconv.Itoa(one.Window), number(one.Resent)
		}
		if one.RoundTrip > 0 {
			trip = console.FormatDuration(time.Duration(one.RoundTrip * float64(time.Second))).String()
		}
		t.Rows = append(t.Rows, row{Key: strconv.FormatUint(one.ID, 10), Cells: append(c, cells(console.FormatRate(one.Rate), window, trip, resent)...)})
	}
	switch n := int64(len(all)); {
	case n > maxRows:
		t.Note = fmt.Sprintf("%s are under way; these are the %d fastest. /api/v1/transfers has more.", console.Plural(n, "transfer"), maxRows)
	case n == 1:
		t.Note = "1 transfer is under way."
	case n > 0:
		t.Note = console.Plural(n, "transfer") + " are under way, the fastest first."
	}
	return t
}

// limitOf returns the name of the limit because of which requests were refused, and the setting for
// that limit.
func limitOf(protocol string, why meter.Reason) string {
	flags := map[meter.Reason]map[string]string{
		meter.Busy:    {"tftp": "--max-transfers", "sftp": "--sftp-conns"},
		meter.Rate:    {"tftp": "--rate"},
		meter.Address: {"tftp": "--max-per-client", "sftp": "--sftp-conns-per-source", "http": "--http-conns-per-source", "https": "--http-conns-per-source"},
		meter.Denied:  {"tftp": "--allow and --deny", "sftp": "--allow and --deny", "http": "--allow and --deny", "https": "--allow and --deny"},
	}
	text := map[meter.Reason]string{
		meter.Busy: "as many are under way as may be", meter.Rate: "more a second from one address than may be", meter.Address: "more from one address than may be",
		meter.Denied: "their addresses are not served", meter.Malformed: "no request that the protocol knows", meter.Overload: "more came at once than could be looked at", meter.Stopping: "the server ends",
	}[why]
	switch {
	case text == "":
		text = string(why)
	case why == meter.Address && protocol != "tftp":
		text += ", or after wrong passwords"
	}
	if flag := flags[why][protocol]; flag != "" {
		text += ", see " + flag
	}
	return text
}

// hourTable returns a table that sums up the last hour, for readers who cannot see the chart.
func hourTable(s Series) table {
	t := table{ID: "hour", Caption: "The last hour", Heads: []string{"Minutes ago", "Protocol", "Moved", "Ended", "Failed", "Packets sent", "Resends"}, Note: "Nothing happened in the last hour."}
	for slot := range slots {
		for _, p := range s.Protocols {
			to := len(p.Bytes) - slot*slotSamples
			if to <= 0 {
				continue
			}
			from := max(to-slotSamples, 0)
			bytes, ended, failed, sent, resent := sum(p.Bytes[from:to]), sum(p.Ended[from:to]), sum(p.Failed[from:to]), sum(p.Sent[from:to]), sum(p.Resent[from:to])
			if bytes == 0 && ended == 0 {
				continue
			}
			minutes := int(slotSamples * sampleEvery / time.Minute)
			t.Rows = append(t.Rows, row{Key: fmt.Sprint(slot, p.Protocol), Cells: cells(fmt.Sprintf("%d to %d", slot*minutes, (slot+1)*minutes), strings.ToUpper(p.Protocol),
				console.FormatBytes(bytes), number(ended), number(failed), number(sent), number(resent))})
			t.Note = "Parts of the hour in which nothing happened are left out. Packets are those of transfers that ended."
		}
	}
	return t
}

func failuresTable(all []Failure) table {
	t := table{ID: "failures", Caption: "Failures", Heads: []string{"Time (UTC)", "File", "Peer", "Protocol", "Moved", "What happened", "Advice"}, Note: "No transfer has failed."}
	for _, f := range all[:min(len(all), maxFailureRows)] {
		cause := f.Result
		if f.Cause != "" {
			cause += ": " + console.Visible(f.Cause)
		}
		t.Rows = append(t.Rows, row{Key: strconv.FormatUint(f.ID, 10), Cells: cells(f.Time.Format("01-02 15:04:05"), short(f.File), who(f.Peer, f.User), strings.ToUpper(f.Protocol)+" "+f.Direction,
			console.FormatBytes(f.Bytes), cause, f.Advice)})
	}
	if len(all) > 0 {
		t.Note = "The latest first."
	}
	if len(all) > maxFailureRows {
		t.Note = fmt.Sprintf("The latest %d; /api/v1/failures has more.", maxFailureRows)
	}
	return t
}

func machinesTable(all []Machine, counts map[string]int) table {
	t := table{ID: "machines", Caption: "Machines that boot", Heads: []string{"Machine", "Address", "Client", "Stage", "Last request", "Boot file"}, Note: "No machine has asked how to boot."}
	for _, m := range all[:min(len(all), maxRows)] {
		stage := m.Stage
		if m.Before != "" {
			stage += " after " + m.Before
		}
		age := time.Duration(m.Age*float64(time.Second)).Round(time.Second).String() + " ago"
		t.Rows = append(t.Rows, row{Key: m.MAC, Bad: m.Stage == pxe.Stuck.String(), Cells: cells(m.MAC, known(m.Address), m.Client+", "+m.Arch, stage, age, known(short(m.File)))})
	}
	if len(all) == 0 {
		return t
	}
	var parts []string
	for _, s := range Stages() {
		if n := counts[s]; n > 0 {
			parts = append(parts, number(int64(n))+" "+s)
		}
	}
	t.Note = strings.Join(parts, ", ") + "."
	if len(all) > maxRows {
		t.Note += fmt.Sprintf(" These are %d of them; /api/v1/machines has more.", maxRows)
	}
	return t
}

// A section is a part of the page that the script updates.
type section struct {
	name  string
	value any
}

// sections holds the sections of a view, as JSON.
type sections struct {
	names  []string
	values [][]byte
}

func newSections(all []section) (s sections) {
	for _, one := range all {
		text, err := json.Marshal(one.value)
		if err != nil {
			panic(err) // encoding fails only for values that have no JSON form
		}
		s.names, s.values = append(s.names, one.name), append(s.values, text)
	}
	return s
}

// event returns an event for the browser (HTML standard, 9.2.6). It contains those sections that
// differ from the sections in `known`.
func (s sections) event(known sections) []byte {
	out := []byte("data: {")
	for i, text := range s.values {
		if i < len(known.values) && bytes.Equal(known.values[i], text) {
			continue
		}
		if out[len(out)-1] != '{' {
			out = append(out, ',')
		}
		out = append(append(strconv.AppendQuote(out, s.names[i]), ':'), text...)
	}
	return append(out, "}\n\n"...)
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func sum(all []int64) (n int64) {
	for _, one := range all {
		n += one
	}
	return n
}

// known returns the text, or console.Unknown if the text is empty.
func known(text string) string {
	if text == "" {
		return console.Unknown
	}
	return text
}

// who returns the address of a peer, with the name of the user if one has logged in.
func who(peer, user string) string {
	if user == "" {
		return known(peer)
	}
	return short(user) + " at " + known(peer)
}

// short shortens a name in the middle if it is long, and makes invisible characters visible.
func short(name string) string {
	name = console.Visible(name)
	r := []rune(name)
	if len(r) <= maxShownName {
		return name
	}
	const half = maxShownName / 2
	return string(r[:half-1]) + "…" + string(r[len(r)-half:])
}
