package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/haul-project/haul/bench/suite/record"
)

// A headline is a row of the short table, which shows one metric of one scenario.
type headline struct {
	title    string
	scenario string
	metric   record.Metric
	readme   string // title of the row in README; "" means that README does not contain it
}

var headlines = []headline{
	{"3 x 10 MB down at once, lock-step", "doc1-download", record.SecondsPerFile, ""},
	{"3 x 10 MB up at once, lock-step", "doc1-upload", record.SecondsPerFile, ""},
	{"100 x 1 MB down at once, lock-step", "many-100-1MB", record.CPUPerPacket, ""},
	{"1,000 x 256 kB down at once, lock-step", "many-1000-256kB", record.CPUPerPacket, ""},
	{"10,000 x 64 kB down at once, lock-step", "many-10000-64kB", record.CPUPerPacket, "TFTP: 10,000 downloads at once, one block at a time"},
	{"64 MB down, blksize 1468, windowsize 64", "window-down", record.Rate, "TFTP: 64 MB down, windowsize 64"},
	{"64 MB up, blksize 1468, windowsize 64", "window-up", record.Rate, "TFTP: 64 MB up, windowsize 64"},
	{"16 x 1 MB down at once, windowsize 16, 1 % lost each way", "loss", record.Seconds, ""},
	{"the same over 1 Gb/s, each server with a client program of its own", "loss-programs", record.Seconds, "TFTP: 16 x 1 MB down over 1 Gb/s, 1 % lost each way"},
	{"over 1 Gb/s, 0.14 ms, windowsize 64", "links-lan1g-w64", record.Rate, ""},
	{"over 100 Mb/s, 0.48 ms, windowsize 64", "links-lan100m-w64", record.Rate, ""},
	{"over a 40 Mb/s VPN, 10 ms, windowsize 64", "links-vpn-w64", record.Rate, ""},
	{"the VPN, 1 % lost each way, windowsize 64", "links-vpn+loss-w64", record.Rate, ""},
}

// sftpHeadlines are further rows of the short table if SFTP was measured.
var sftpHeadlines = []headline{
	{"256 MiB down by SFTP from a stock sshd, loopback", "sftp-get-rtt0", record.DataRate, ""},
	{"the same at 9 ms", "sftp-get-rtt9", record.DataRate, ""},
	{"the same at 20 ms", "sftp-get-rtt20", record.DataRate, ""},
	{"the same at 100 ms", "sftp-get-rtt100", record.DataRate, ""},
	{"1 GiB down at 100 ms", "sftp-get-ramp-rtt100", record.DataRate, ""},
	{"1 GiB up at 100 ms", "sftp-put-ramp-rtt100", record.DataRate, "SFTP: 1 GiB up to OpenSSH at 100 ms"},
	{"10,000 files of 4 KiB down at 20 ms", "sftp-tree-get-rtt20", record.FileRate, "SFTP: 10,000 files of 4 KiB down at 20 ms"},
	{"File.Read with 32 KiB at 20 ms", "sftp-read-rtt20-32KiB", record.Rate, ""},
	{"File.Write with 32 KiB at 20 ms", "sftp-write-rtt20-32KiB", record.Rate, ""},
}

// tcpHeadlines are further rows of the short table if TCP was measured.
var tcpHeadlines = []headline{
	{"1 kB over TCP, 1,000 clients, a connection for each request", "tcp-each-1kB", record.CPUPerRequest, "TCP: 1 kB on a new connection, 1,000 clients"},
	{"the same, connections kept open", "tcp-keep-1kB", record.CPUPerRequest, ""},
	{"1 kB over TLS, 1,000 clients, a connection for each request", "tcp-tls-each-1kB", record.CPUPerRequest, ""},
	{"the same, connections kept open", "tcp-tls-keep-1kB", record.CPUPerRequest, ""},
	{"10,000 idle connections", "tcp-idle-10000", record.IdleMemory, ""},
	{"256 MiB down by HTTP", "http-file", record.Rate, ""},
	{"the same by HTTPS", "https-file", record.Rate, "HTTPS: 256 MiB down"},
}

// Headline returns the short table, with a line that names the source of its figures.
func (r *Report) Headline() string {
	t := Table{Head: []string{"load", "unit", "haul", "best peer", "haul to it", "floor, or bound"}}
	var n notes
	missing, all := 0, r.headlines()
	for _, h := range all {
		if r.of[h.scenario] == nil {
			missing++
			continue
		}
		t.Rows = append(t.Rows, Row{Cells: r.headline(h, &n)})
	}
	t.Notes = n.lines()
	if missing > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("%d of %d loads were not measured.", missing, len(all)))
	}
	return t.markdown() + "\n" + r.provenance() + "\n"
}

// headlines returns the rows for TFTP, and for the other protocols that were measured.
func (r *Report) headlines() []headline {
	all := slices.Clone(headlines)
	for _, more := range [][]headline{sftpHeadlines, tcpHeadlines} {
		if slices.ContainsFunc(more, func(h headline) bool { return r.of[h.scenario] != nil }) {
			all = append(all, more...)
		}
	}
	return all
}

func (r *Report) headline(h headline, n *notes) []string {
	title := h.title
	if s := r.of[h.scenario]; s != nil && s.Link == "" && s.Protocol == "" {
		title = s.Title // the title in the results, because a quick run measures smaller scenarios
	}
	u := unitOf(h.metric)
	peer, against := r.bestPeer(h.scenario, h.metric)
	best := none
	if peer != "" {
		best = fmt.Sprintf("%s (%s)", r.show(n, h.scenario, peer, h.metric), peer)
	}
	return []string{title, headUnit(h.metric), r.show(n, h.scenario, "haul", h.metric), best, times(against), r.limitOf(h, u)}
}

func headUnit(m record.Metric) string {
	switch m {
	case record.CPUPerPacket, record.CPUPerRequest:
		return "server " + unitOf(m).short
	}
	return unitOf(m).short
}

// bestPeer returns the name of the peer with the best median among the peers that did the work, and
// the ratio of haul's figure to that peer's figure.
func (r *Report) bestPeer(scenario string, m record.Metric) (string, float64) {
	sense := atMost
	if unitOf(m).higher {
		sense = atLeast
	}
	who, best := "", math.NaN()
	for _, peer := range r.peersOf(scenario, "haul") {
		if f := r.get(scenario, peer).median(m); finite(f) && (who == "" || worse(sense, best, f)) {
			who, best = peer, f
		}
	}
	return who, ratio(r.get(scenario, "haul"), r.get(scenario, who), m)
}

// limitOf returns the limit that no contender can exceed: over a link its bound, otherwise the
// figure of a floor.
func (r *Report) limitOf(h headline, u unit) string {
	if s := r.of[h.scenario]; s != nil && s.Link != "" {
		if strings.HasSuffix(s.Link, "+loss") {
			return none // the bound is for links without loss
		}
		return figure(s.of["haul"].median(record.Bound))
	}
	for _, floor := range []string{"floor-64", tcpFloorDeferred, tcpFloor} {
		if f := r.get(h.scenario, floor).median(h.metric); finite(f) {
			return u.show(f)
		}
	}
	return none
}

// provenance returns a sentence that says in which runs the figures were measured.
func (r *Report) provenance() string {
	var from []string
	for _, u := range r.runs {
		from = append(from, fmt.Sprintf("commit %s on %s, %s, %.0f GB, %s, %s", u.Commit, u.Machine, count(u.Cores, "core"),
			float64(u.MemoryMB)/1e3, u.Kernel, dayOf(u.began)))
	}
	return fmt.Sprintf("Medians from %s: %s. \"Haul to it\" is the median of the ratios of each round, in which all took turns.",
		text(strings.Join(r.files, ", ")), text(strings.Join(distinct(from), "; ")))
}

func dayOf(began string) string {
	day, _, _ := strings.Cut(began, "T")
	return day
}

func distinct(all []string) []string {
	var some []string
	seen := make(map[string]bool)
	for _, s := range all {
		if !seen[s] {
			seen[s] = true
			some = append(some, s)
		}
	}
	return some
}
