package suite

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/haul-project/haul/bench/peer"
	"github.com/haul-project/haul/bench/suite/record"
)

// A Scenario describes what is measured, how, and with which contenders.
type Scenario struct {
	record.Scenario
	Who   who           // selects the contenders that take part, if they are present
	Guess time.Duration // expected duration of one measurement
	Limit time.Duration // time limit of one measurement; 0 means limitDefault

	act  act       // does the work of the clients; nil means that haul's load generator makes Load
	task peer.Task // for SFTP: the task of the client in act
	ways []sftpWay // for SFTP: the ways to use a client that are compared; nil means only the plain way
}

// An act performs the work of a scenario's clients once, and returns their figures. A warm-up is
// the same work with fewer files.
type act func(ctx context.Context, s *stage, warmup bool) (tally, error)

// limitDefault is the time limit of a measurement, including the start of the server. The load
// generator has a shorter limit for each transfer, so it can report which transfers failed.
const limitDefault = 130 * time.Second

// A who selects the contenders of a scenario.
type who struct {
	names   []string // names of the contenders; empty means all contenders
	windows bool     // only contenders that support windowsize
	floors  bool     // also the floors in C, if names is empty
	clients []string // names of the stock clients to use; empty means haul's client
	own     bool     // use each server with its client in ownClients instead
}

// ownClients maps the name of a server to the client that people use with it, or to the most
// capable client.
var ownClients = map[string]string{"haul": "haul", "haul before": "haul", "atftpd": "atftp", "rs-tftpd": "atftp", "r-tftpd": "atftp"}

const (
	kB = 1000
	mB = 1000 * kB
)

// sizeName returns a size as it appears in the name of a scenario.
func sizeName(bytes int64) string {
	if bytes%mB == 0 {
		return fmt.Sprintf("%dMB", bytes/mB)
	}
	return fmt.Sprintf("%dkB", bytes/kB)
}

// Full returns every scenario.
func Full() []Scenario {
	var all []Scenario
	all = append(all, document1(10*mB)...)
	all = append(all, document1Stock(10*mB)...)
	for _, m := range []struct {
		concurrency, transfers int
		size                   int64
	}{
		{10, 10, 10 * mB}, {100, 100, 1 * mB}, {100, 4000, 10 * kB}, {1000, 1000, 256 * kB},
		{1000, 10_000, 1 * kB}, {1000, 5000, 10 * kB}, {10_000, 10_000, 4 * kB}, {10_000, 10_000, 64 * kB},
	} {
		all = append(all, many(m.concurrency, m.transfers, m.size, false))
	}
	all = append(all, many(100, 100, 1*mB, true), many(1000, 1000, 64*kB, true))
	for _, c := range []struct {
		concurrency int
		size        int64
	}{{1, 10 * mB}, {3, 10 * mB}, {10, 5 * mB}, {100, 1 * mB}, {1000, 100 * kB}} {
		all = append(all, goAndC(c.concurrency, c.size))
	}
	all = append(all, loops(100, 1*mB), loops(1000, 256*kB))
	all = append(all, windows(64*mB)...)
	for _, w := range windowSizes {
		all = append(all, windowOf(w))
	}
	all = append(all, losses()...)
	all = append(all, lossForUsers())
	for _, p := range []string{"lan1g", "lan100m", "vpn"} {
		all = append(all, accuracy(p))
		all = append(all, linkCells(p)...)
	}
	all = append(all, stockOverLink("lan1g"))
	all = append(all, besides(5*time.Second)...)
	all = append(all, sftpScenarios()...)
	return append(all, tcpScenarios()...)
}

// quickPeers names the contenders of a quick run: one of each kind.
var quickPeers = []string{"haul", "tftpd-hpa", "atftpd", "dnsmasq", "rs-tftpd", "goserver", "floor-64"}

// Quick returns the scenarios of a quick run, which takes less than five minutes, with a few peers.
func Quick() []Scenario {
	all := document1(2 * mB)
	all = append(all, many(100, 100, 100*kB, false), many(1000, 2000, 10*kB, false))
	all = append(all, windows(32 * mB)[:2]...)
	all = append(all, linkCell("lan1g", 16), linkCell("lan1g", 128))
	for i := range all {
		if len(all[i].Who.names) == 0 {
			all[i].Who.names = quickPeers
		}
	}
	return all
}

// Smoke returns one small scenario of each kind, for haul alone.
func Smoke() []Scenario {
	all := document1(256 * kB)
	all = append(all, many(100, 100, 4*kB, false), many(20, 20, 16*kB, true))
	all = append(all, windows(4*mB)...)
	all = append(all, losses()...)
	all = append(all, goAndC(3, 64*kB), linkCell("lan1g", 16), untuned("lan1g", 4*mB))
	all = append(all, besides(time.Second)...)
	all = append(all, accuracy("lan100m"))
	for i := range all {
		all[i].Who = who{names: []string{"haul"}}
		if all[i].Group == "loss" {
			all[i].Concurrency, all[i].Transfers, all[i].Size = 4, 4, 64*kB
		}
	}
	all = append(all, sftpSmoke()...)
	return append(all, tcpSmoke()...)
}

// document1 returns scenarios with three simultaneous files in lock-step, as in document 1.
func document1(size int64) []Scenario {
	down := Scenario{
		Scenario: record.Scenario{
			Name: "doc1-download", Group: "doc1", Fresh: true, Warmups: 3,
			Title: fmt.Sprintf("3 x %s down at once, 512-byte blocks in lock-step", sizeName(size)),
			Load:  record.Load{Concurrency: 3, Transfers: 3, Size: size, NoOptions: true},
		},
		Who: who{floors: true}, Guess: 2 * time.Second,
	}
	up := down
	up.Name, up.Write = "doc1-upload", true
	up.Title = fmt.Sprintf("3 x %s up at once, 512-byte blocks in lock-step", sizeName(size))
	return []Scenario{down, up}
}

// document1Stock returns the scenarios of document1, with the client that document 1 used.
func document1Stock(size int64) []Scenario {
	all := document1(size)
	for i := range all {
		all[i].Name += "-stock"
		all[i].Title += ", the tftp-hpa client"
		all[i].Who.clients = []string{"tftp-hpa"}
		all[i].Warmups = 1
		all[i].act = stockClients
	}
	return all
}

// many returns a scenario with `concurrency` simultaneous files in lock-step.
func many(concurrency, transfers int, size int64, write bool) Scenario {
	name, way := "many", "down"
	if write {
		name, way = "many-up", "up"
	}
	return Scenario{
		Scenario: record.Scenario{
			Name: fmt.Sprintf("%s-%d-%s", name, concurrency, sizeName(size)), Group: name, Fresh: true, Warmups: min(concurrency, 100),
			Title: fmt.Sprintf("%d files of %s %s, %d at the same time, lock-step", transfers, sizeName(size), way, concurrency),
			Load:  record.Load{Concurrency: concurrency, Transfers: transfers, Size: size, NoOptions: true, Write: write},
		},
		Who: who{floors: true}, Guess: 5 * time.Second,
	}
}

// goAndC returns a scenario that measures the cost of Go compared with C, with minimal programs in
// both languages.
func goAndC(concurrency int, size int64) Scenario {
	s := many(concurrency, concurrency, size, false)
	s.Group = "go-vs-c"
	s.Name = fmt.Sprintf("go-vs-c-%d", concurrency)
	s.Who = who{names: []string{"haul", "goserver", "floor-64", "floor-1", "floor-epoll"}}
	return s
}

// loops returns a scenario that measures the effect of a second event loop. On two cores, the
// second loop takes one core from the clients.
func loops(concurrency int, size int64) Scenario {
	s := many(concurrency, concurrency, size, false)
	s.Group = "loops"
	s.Name = fmt.Sprintf("loops-%d", concurrency)
	s.Who = who{names: []string{"haul", "haul 2 loops"}}
	return s
}

var windowSizes = []int{1, 2, 4, 8, 16, 32, 64, 128}

// windows returns scenarios with one large file in windows, in both directions, and also with the
// largest blocks.
func windows(size int64) []Scenario {
	window := func(name string, blocks, window int, write bool) Scenario {
		way := "down"
		if write {
			way = "up"
		}
		return Scenario{
			Scenario: record.Scenario{
				Name: name, Group: "window", Fresh: true, Warmups: 1,
				Title: fmt.Sprintf("%s %s, blksize %d, windowsize %d", sizeName(size), way, blocks, window),
				Load:  record.Load{Concurrency: 1, Transfers: 1, Size: size, BlockSize: blocks, Window: window, Write: write},
			},
			Who: who{floors: true, windows: true}, Guess: 2 * time.Second,
		}
	}
	eight := window("window-up-8", 1468, 64, true)
	eight.Concurrency, eight.Transfers, eight.Size = 8, 8, size/4
	eight.Title = fmt.Sprintf("8 x %s up at once, blksize 1468, windowsize 64", sizeName(eight.Size))
	return []Scenario{
		window("window-down", 1468, 64, false), window("window-up", 1468, 64, true), eight,
		window("window-down-65464", 65464, 16, false), window("window-up-65464", 65464, 16, true),
	}
}

// windowOf returns a scenario with one file in windows of the given size, over loopback.
func windowOf(window int) Scenario {
	s := windows(int64(min(4*window, 64)) * mB)[0]
	s.Group = "windowsize"
	s.Name = fmt.Sprintf("windowsize-%d", window)
	s.Window = window
	s.Title = fmt.Sprintf("%s down, blksize 1468, windowsize %d", sizeName(s.Size), window)
	return s
}

// lossForUsers returns a scenario with losses over a link, in which each server is used with a
// client program as users start it. With haul's load generator, haul would repair losses for other
// servers too.
func lossForUsers() Scenario {
	s := losses()[0]
	s.Name, s.Link = "loss-programs", "lan1g+loss"
	s.Title = "16 x 1 MB down at once over lan1g, 1 % lost each way, windowsize 16, each server with a client program of its own"
	s.BlockSize, s.Loss, s.Seed, s.Warmups = linkBlock, 0, 0, 1
	s.Who = who{own: true, names: slices.Sorted(maps.Keys(ownClients))}
	s.act = stockClients
	return s
}

// losses returns scenarios in which the clients lose one packet in a hundred in each direction.
func losses() []Scenario {
	loss := func(name, title string, l record.Load) Scenario {
		l.Concurrency, l.Transfers, l.Loss, l.Seed = 16, 16, 0.01, 1
		return Scenario{
			Scenario: record.Scenario{Name: name, Group: "loss", Title: title, Load: l, Fresh: true},
			Guess:    15 * time.Second,
		}
	}
	return []Scenario{
		loss("loss", "16 x 1 MB down at once, blksize 1468, windowsize 16, 1 % lost each way",
			record.Load{Size: 1 * mB, BlockSize: 1468, Window: 16}),
		loss("loss-lockstep", "16 x 64 kB down at once, 512-byte blocks in lock-step, 1 % lost each way",
			record.Load{Size: 64 * kB, NoOptions: true}),
	}
}
