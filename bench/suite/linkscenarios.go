package suite

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/haul-project/haul/bench/link"
	"github.com/haul-project/haul/bench/suite/record"
)

// linkBlock is the block size of document 2. Such a block fits into an Ethernet frame, with room
// for a tunnel's headers.
const linkBlock = 1432

// cellTime is how long a transfer over a link should take at the highest possible rate. It is so
// long that the first round trips do not matter.
const cellTime = 1500 * time.Millisecond

// linkPeers names haul, the peers that support windows, and a floor, which shows the rate that the
// link and the load generator permit.
var linkPeers = []string{"haul", "atftpd", "rs-tftpd", "floor-64"}

// linkWindows lists the windowsizes of document 2's table, and some windowsizes between them.
var linkWindows = []int{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128}

// lossyPeers names the contenders on links with loss. The floor is not among them, because it never
// repeats a packet.
var lossyPeers = linkPeers[:3]

// lossyPeersAt lists the only windowsizes at which the peers are measured on links with loss,
// because there they take ten times as long.
var lossyPeersAt = []int{16, 64}

// linkCells returns the scenarios of document 2's table for a profile: every windowsize with and
// without loss, and haul without any tuning.
func linkCells(profile string) []Scenario {
	var all []Scenario
	for _, w := range linkWindows {
		all = append(all, linkCell(profile, w))
	}
	all = append(all, untuned(profile, cellSize(profile, 128)))
	lossy := profile + "+loss"
	for _, w := range windowSizes {
		c := linkCell(lossy, w)
		if c.Who.names = lossyPeers; !slices.Contains(lossyPeersAt, w) {
			c.Who.names = lossyPeers[:1]
		}
		all = append(all, c)
	}
	return append(all, untuned(lossy, cellSize(lossy, 128)))
}

// linkCell returns the scenario of one row of the table: a windowsize over a link.
func linkCell(profile string, window int) Scenario {
	size := cellSize(profile, window)
	return Scenario{
		Scenario: record.Scenario{
			Name: fmt.Sprintf("links-%s-w%d", profile, window), Group: "links-" + profile, Link: profile, Fresh: true, Warmups: 1,
			Title: fmt.Sprintf("%s down over %s, blksize %d, windowsize %d", sizeName(size), profile, linkBlock, window),
			Load:  record.Load{Concurrency: 1, Transfers: 1, Size: size, BlockSize: linkBlock, Window: window},
		},
		Who: who{names: linkPeers}, Guess: cellTime + time.Second,
	}
}

// untuned returns the scenario in which haul get fetches a file from haul serve, both without any
// flags for speed.
func untuned(profile string, size int64) Scenario {
	return Scenario{
		Scenario: record.Scenario{
			Name: fmt.Sprintf("links-%s-untuned", profile), Group: "links-" + profile, Link: profile, Fresh: true, Warmups: 1, Untuned: true,
			Title: fmt.Sprintf("%s down over %s, haul with nothing tuned on either side", sizeName(size), profile),
			Load:  record.Load{Concurrency: 1, Transfers: 1, Size: size},
		},
		Who: who{names: []string{"haul"}}, Guess: cellTime + time.Second,
		act: plainGet,
	}
}

// stockOverLink returns the scenario that measures other clients with haul's server over a link.
func stockOverLink(profile string) Scenario {
	return Scenario{
		Scenario: record.Scenario{
			Name: "clients-" + profile, Group: "clients", Link: profile, Fresh: true, Warmups: 1,
			Title: fmt.Sprintf("4 MB down from haul over %s, each client with its best options", profile),
			Load:  record.Load{Concurrency: 1, Transfers: 1, Size: 4 * mB, BlockSize: linkBlock, Window: 16},
		},
		Who: who{names: []string{"haul"}, clients: []string{"tftp-hpa", "atftp", "curl"}}, Guess: 4 * time.Second,
		act: stockClients,
	}
}

// The step between the sizes of a cell's file, the smallest size without and with loss, and the
// largest size, all in bytes.
const (
	cellStep    = 64 * kB
	minCell     = 4 * cellStep
	minLossCell = 1 * mB // a size of some hundred packets, so that some of them are lost
	maxCell     = 200 * mB
)

// lossCell is the divisor of the file's size on links with loss. Peers wait for seconds after each
// lost packet, so a larger file would take minutes.
const lossCell = 10

// cellSize returns the size of the file for a cell: the number of bytes that can be moved in
// cellTime at the bound.
func cellSize(profile string, window int) int64 {
	base, lossy := strings.CutSuffix(profile, "+loss")
	p, err := link.Lookup(base)
	if err != nil {
		return minLossCell // the measurement will report the error in the profile's name
	}
	bytes, least := int64(p.Bound(linkBlock, window)*cellTime.Seconds()), int64(minCell)
	if lossy {
		bytes, least = bytes/lossCell, minLossCell
	}
	return min(max(bytes/cellStep*cellStep, least), maxCell)
}
