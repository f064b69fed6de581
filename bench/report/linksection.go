package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/haul-project/haul/bench/suite/record"
)

// linkSection returns the section about a link, which has a table with a row for each windowsize.
func (r *Report) linkSection(link string) Section {
	group := "links-" + link
	s := Section{
		Name: group, Title: "Over the link " + link,
		Intro: "MB/s. The bound is the highest rate with one window under way at a time, without loss. " +
			"Beside the rates are their shares of the bound, and with 1 % of the packets lost each way their shares of the rate without loss.",
	}
	plain, lossy := r.group(group), r.group(group+"+loss")
	if len(plain)+len(lossy) == 0 {
		return s
	}
	who := contenders(slices.Concat(plain, lossy)...)
	t := Table{Name: group + "-rate", Head: []string{"windowsize", "bound"}}
	for _, w := range who {
		t.Head = append(t.Head, w, "of it")
	}
	for _, w := range who {
		t.Head = append(t.Head, w+", 1 % lost", "of that")
	}
	var n notes
	for _, name := range rowsOf(group, plain, lossy) {
		r.linkRow(&t, &n, group, name, who)
	}
	t.Notes = n.lines()
	s.Tables = []Table{t}
	s.Plots = []Plot{r.byWindowsize("MB/s by windowsize over "+link, byWindow(plain), byWindow(lossy))}
	return s
}

// rowsOf returns the suffixes of the scenarios' names after the group, one for each row: "-w1" and
// so on in the order of the windowsizes, and then "-untuned".
func rowsOf(group string, plain, lossy []*scenario) []string {
	var last bool
	windows := make(map[int]bool)
	for _, s := range slices.Concat(plain, lossy) {
		last = last || s.Untuned
		if s.Window > 0 {
			windows[s.Window] = true
		}
	}
	var rows []string
	for w := 1; len(windows) > 0 && w <= 1<<16; w++ {
		if windows[w] {
			rows = append(rows, fmt.Sprintf("-w%d", w))
			delete(windows, w)
		}
	}
	if last {
		rows = append(rows, "-untuned")
	}
	return rows
}

func (r *Report) linkRow(t *Table, n *notes, group, row string, who []string) {
	plain, lossy := group+row, group+"+loss"+row
	name := strings.TrimPrefix(row, "-w")
	if _, err := strconv.Atoi(name); err != nil {
		name = strings.TrimPrefix(row, "-")
	}
	bound, cells := none, []string{}
	for _, w := range who {
		if f := r.get(plain, w).median(record.Bound); finite(f) && bound == none {
			bound = figure(f)
		}
		cells = append(cells, r.linkCell(n, plain, w, record.Rate), percent(r.get(plain, w).median(record.ShareOfBound)))
	}
	for _, w := range who {
		left := r.get(lossy, w).median(record.Rate) / r.get(plain, w).median(record.Rate)
		cells = append(cells, r.linkCell(n, lossy, w, record.Rate), percent(left))
	}
	t.add(name, append([]string{bound}, cells...)...)
	if row == "-untuned" {
		t.Rows[len(t.Rows)-1].Kind = Ours
	}
}

// linkCell returns the text of a cell. In the row of haul without any tuning, the cells of peers
// stay empty, because peers have nothing comparable.
func (r *Report) linkCell(n *notes, scenario, who string, m record.Metric) string {
	if s := r.of[scenario]; s != nil && s.Untuned && s.of[who] == nil {
		return none
	}
	return r.show(n, scenario, who, m)
}
