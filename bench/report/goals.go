package report

import (
	"slices"
	"strings"

	"github.com/haul-project/haul/bench/suite/record"
)

// A Goal says which figure haul, or another contender, must reach in each of some scenarios.
type Goal struct {
	Title     string
	Source    string // origin of the goal
	Scenarios []string
	Contender string // the contender that must reach the goal; "" means haul
	Metric    record.Metric
	Rival     rival // the figure is divided by that of the rival; the zero value means no division
	Sense     sense
	Limit     float64
}

// A sense says on which side of the limit a figure must be.
type sense string

const (
	atMost  sense = "at most"
	atLeast sense = "at least"
	below   sense = "below"
)

func (s sense) holds(figure, limit float64) bool {
	switch s {
	case atMost:
		return figure <= limit
	case atLeast:
		return figure >= limit
	}
	return figure < limit
}

// A rival says with which other figure a figure is compared.
type rival struct {
	kind  rivalKind
	name  string   // name of a contender or, for inScenario, of a scenario
	among []string // for bestCell: names of scenarios
}

type rivalKind int

const (
	nobody      rivalKind = iota
	bestPeer              // the peer with the worst ratio, among the peers that did the work
	contender             // the contender with the name rival.name, in the same scenario
	lossless              // the same contender, in the scenario of the same name without "+loss"
	bestCell              // the same contender's best figure in the scenarios rival.among
	inScenario            // the same contender, in the scenario rival.name
	modelBound            // the minimum time to move the file by SFTP, according to sftpModel
	shareOfSelf           // no divisor: the metric is already a share
)

// windowsOn returns the names of the scenarios of a link, one for each windowsize. With loss, fewer
// windowsizes are measured.
func windowsOn(link string) []string {
	sizes := []string{"1", "2", "3", "4", "6", "8", "12", "16", "24", "32", "48", "64", "128"}
	if strings.HasSuffix(link, "+loss") {
		sizes = []string{"1", "2", "4", "8", "16", "32", "64", "128"}
	}
	return named("links-"+link+"-w", sizes...)
}

func named(prefix string, suffixes ...string) []string {
	var all []string
	for _, s := range suffixes {
		all = append(all, prefix+s)
	}
	return all
}

var (
	links      = []string{"lan1g", "lan100m", "vpn"}
	longFiles  = named("many-", "100-1MB", "1000-256kB", "10000-64kB")
	shortFiles = named("many-", "100-10kB", "1000-1kB", "1000-10kB", "10000-4kB")
	manyFiles  = slices.Concat(named("many-", "10-10MB"), longFiles, shortFiles)
	manyUp     = named("many-up-", "100-1MB", "1000-64kB")
)

// withoutSync is the contender that runs haul in the way its peers work: it does not wait until an
// upload is on the disk.
const withoutSync = "haul without fsync"

// Goals returns all goals. A figure without a rival is compared with its limit directly.
func Goals() []Goal {
	all := append(lockstepGoals("haul"), lockstepGoals("haul single-port")...)
	all = append(all, stockClientGoals()...)
	all = append(all, windowGoals()...)
	all = append(all, lossGoals()...)
	for _, l := range links {
		all = append(all, linkGoals(l)...)
	}
	all = append(all, sftpGoals()...)
	return append(all, tcpGoals()...)
}

func sftpGoals() []Goal {
	const source = "SFTP"
	best, bound := rival{kind: bestPeer}, rival{kind: modelBound}
	data, far := record.DataRate, named("sftp-", "get-ramp-rtt100", "put-ramp-rtt100")
	var all []Goal
	for _, way := range []string{"get", "put"} {
		near := []string{"sftp-" + way + "-rtt0"}
		all = append(all,
			Goal{way + " over loopback, against the best client of a stock server", source, near, "", data, best, atLeast, 1.2},
			Goal{way + " over loopback, client CPU against the best client", source, near, "", record.ClientCPUPerGB, best, below, 1},
			Goal{way + " at 9, 20 and 100 ms, time against the model's bound", source,
				named("sftp-"+way+"-", "rtt9", "rtt20", "rtt100", "ramp-rtt20", "ramp-rtt100"), "", record.Seconds, bound, atMost, 1.15},
			Goal{way + " at 9, 20 and 100 ms, time against the model's bound", source,
				named("sftp-"+way+"-", "rtt9", "rtt20", "rtt100", "ramp-rtt20", "ramp-rtt100"), "haul to haul", record.Seconds, bound, atMost, 1.15},
		)
	}
	all = append(all,
		Goal{"1 GiB at 100 ms, against the best client of a stock server", source, far, "", data, best, atLeast, 2.5},
		Goal{"1 GiB at 100 ms, against the best peer", source, far, "haul to haul", data, best, atLeast, 2.5},
		Goal{"1 byte at 100 ms, round trips that it takes", source, []string{"sftp-tiny-rtt100"}, "", record.RoundTrips, rival{}, atMost, 12},
		Goal{"1 byte at 100 ms, round trips that it takes", source, []string{"sftp-tiny-rtt100"}, "haul to haul", record.RoundTrips, rival{}, atMost, 9},
		Goal{"10,000 files of 4 KiB at 20 ms, against sftp -r", source, named("sftp-tree-", "get-rtt20", "put-rtt20"), "", record.FileRate,
			rival{kind: contender, name: "OpenSSH sftp"}, atLeast, 10},
		Goal{"10,000 files of 4 KiB down at 20 ms, files/s", source, []string{"sftp-tree-get-rtt20"}, "", record.FileRate, rival{}, atLeast, 4000},
		Goal{"10,000 files of 4 KiB up at 20 ms, files/s", source, []string{"sftp-tree-put-rtt20"}, "", record.FileRate, rival{}, atLeast, 3000},
		Goal{"500 MiB with a server that is slow in CPU, against the best client", source, named("sftp-slow-", "down", "up"), "", data, best, atLeast, 1},
	)
	sizes := []string{"1KiB", "16KiB", "32KiB", "128KiB", "1MiB", "4MiB"}
	for _, way := range []struct{ group, what, stream string }{{"sftp-read-", "File.Read", "File.WriteTo"}, {"sftp-write-", "File.Write", "File.ReadFrom"}} {
		what := way.what
		all = append(all,
			Goal{what + " over loopback, against pkg/sftp", source, named(way.group+"rtt0-", sizes...), "", record.Rate, rival{kind: contender, name: "pkg/sftp"}, atLeast, 1},
			Goal{what + " with any buffer at 20 ms, against the whole file of the same size", source, named(way.group+"rtt20-", sizes...), "", record.Rate,
				rival{kind: inScenario, name: way.group + "rtt20-whole"}, atLeast, 0.8},
			Goal{way.stream + " over loopback and at 20 ms, against pkg/sftp", source, named(way.group, "rtt0-stream", "rtt20-stream"), "", record.Rate,
				rival{kind: contender, name: "pkg/sftp"}, atLeast, 1},
		)
	}
	return all
}

func lockstepGoals(who string) []Goal {
	const source = "lock-step"
	floor, kept := rival{kind: contender, name: "floor-64"}, rival{kind: bestPeer}
	cpu := record.CPUPerPacket
	return []Goal{
		{"CPU, 100 and more at once, against the batched floor", source, longFiles, who, cpu, floor, atMost, 1.15},
		{"CPU, 100 and more at once, below every peer", source, slices.Concat(longFiles, shortFiles), who, cpu, kept, below, 1},
		{"CPU, 100 and more uploads at once, below every peer", source, manyUp, who, cpu, kept, below, 1},
		{"CPU, 3 downloads at once, no worse than the best peer", source, []string{"doc1-download"}, who, cpu, kept, atMost, 1},
		{"CPU, 3 uploads at once, no worse than the best peer", source, []string{"doc1-upload"}, who, cpu, kept, atMost, 1},
		{"no failure at 10 to 10,000 at once", source, slices.Concat(manyFiles, manyUp), who, record.Failed, rival{}, atMost, 0},
		{"memory at 10,000 at once, MB", source, named("many-10000-", "4kB", "64kB"), who, record.Memory, rival{}, below, 64},
	}
}

func stockClientGoals() []Goal {
	const source = "three files at once"
	ordinary, perFile := rival{kind: contender, name: "goserver"}, record.SecondsPerFile
	return []Goal{
		{"3 uploads with the tftp-hpa client, half the time of an ordinary Go server", source, []string{"doc1-upload-stock"}, "", perFile, ordinary, atMost, 0.5},
		{"3 uploads with the tftp-hpa client, faster than every peer", source, []string{"doc1-upload-stock"}, "", perFile, rival{kind: bestPeer}, below, 1},
		{"3 downloads with the tftp-hpa client, faster than every peer", source, []string{"doc1-download-stock"}, "", perFile, rival{kind: bestPeer}, below, 1},
	}
}

func windowGoals() []Goal {
	const source = "windows"
	best := rival{kind: bestPeer}
	down, up := []string{"window-down"}, []string{"window-up"}
	return []Goal{
		{"download throughput, against the best peer", source, down, "", record.Rate, best, atLeast, 2.5},
		{"download CPU for a packet, against the best peer", source, down, "", record.CPUPerPacket, best, atMost, 0.25},
		{"upload throughput, against the best peer", source, up, "", record.Rate, best, atLeast, 1},
		{"upload throughput of eight at once, against the best peer", source, []string{"window-up-8"}, "", record.Rate, best, atLeast, 2},
		{"upload throughput, against the best peer", source, up, withoutSync, record.Rate, best, atLeast, 1.3},
		{"one core of the server sends 1468-byte blocks, Gb/s", source, down, "", record.GigabitsPerCore, rival{}, atLeast, 4},
	}
}

func lossGoals() []Goal {
	const source = "loss"
	return []Goal{
		{"1 % lost each way: ten times as fast as the best peer", source, []string{"loss"}, "", record.Seconds, rival{kind: bestPeer}, atMost, 0.1},
		{"1 % lost each way, programs as people start them: ten times as fast as the best peer", source, []string{"loss-programs"}, "", record.Seconds, rival{kind: bestPeer}, atMost, 0.1},
		{"1 % lost each way: every transfer complete", source, []string{"loss", "loss-lockstep", "loss-programs"}, "", record.Failed, rival{}, atMost, 0},
		{"lock-step over 0.48 ms, 1 % lost each way: at least half of the rate without loss", source, []string{"links-lan100m+loss-w1"}, "", record.Rate,
			rival{kind: lossless}, atLeast, 0.5},
	}
}

func linkGoals(link string) []Goal {
	source := "links, " + link
	loss := link + "+loss"
	return []Goal{
		{"as much as every peer at every windowsize", source, windowsOn(link), "", record.Rate, rival{kind: bestPeer}, atLeast, 0.99},
		{"as much as the floor at every windowsize", source, windowsOn(link), "", record.Rate, rival{kind: contender, name: "floor-64"}, atLeast, 0.97},
		{"nothing tuned, against the best windowsize", source, []string{"links-" + link + "-untuned"}, "", record.Rate,
			rival{kind: bestCell, among: windowsOn(link)}, atLeast, 0.97},
		{"1 % lost each way, against none, at every windowsize", source, windowsOn(loss), "", record.Rate, rival{kind: lossless}, atLeast, 0.7},
		{"1 % lost each way, against none, nothing tuned", source, []string{"links-" + loss + "-untuned"}, "", record.Rate, rival{kind: lossless}, atLeast, 0.7},
	}
}
