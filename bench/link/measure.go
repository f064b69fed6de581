package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Accuracy says how closely a link matches its profile, according to measurements.
type Accuracy struct {
	Profile string
	Want    time.Duration // duration of a block of 1,432 bytes and its acknowledgement, by the profile
	Lead    time.Duration // result of [Link.Lead]
	Ping    Ping          // measured duration of that exchange, by this package's probes
	Share   float64       // share of one processor that the emulator used during Ping
	Late    Stats         // statistics of the emulator during Ping

	Bulk []Bulk // streams of packets of 1,500 bytes; empty if a loss would stop them, or no rate bounds them
	Echo Tool   // result of ping(8), in milliseconds
	TCP  Tool   // result of iperf3, in Mb/s
}

// Off returns the difference between the measured median and the profile's duration, as a fraction
// of the latter.
func (a *Accuracy) Off() float64 {
	return float64(a.Ping.Median-a.Want) / float64(a.Want)
}

// Bulk is the result of a stream of full-size packets from side A.
type Bulk struct {
	Segments int     // number of datagrams in each system call of the sender
	Want     float64 // rate of IP packets that the profile allows, in Mb/s
	Got      float64 // rate of IP packets that were acknowledged, in Mb/s
	Share    float64 // share of one processor that the emulator used
	Failures uint64  // number of packets that were dropped although the profile does not ask for it
}

// Tool is the result of a measurement by another program.
type Tool struct {
	Value  float64
	Absent string // reason why there is no Value; "" if there is one
}

// A Program returns the command that runs a program on a side.
type Program func(ctx context.Context, side Side, args ...string) *exec.Cmd

// Tools holds the further programs that [Link.Measure] uses. A program that the machine does not
// have is nil.
type Tools struct {
	Ping, IPerf3 Program
}

const (
	measurePings = 1000
	measureTime  = 2 * time.Second // time for the pings, and for each stream
	fullPacket   = 1500
)

// Measure measures how accurate the link is. It takes some ten seconds, during which nothing else
// should use the link.
func (l *Link) Measure(ctx context.Context, tools Tools) (Accuracy, error) {
	a := Accuracy{Profile: l.profile.Name, Want: l.profile.Cycle(documentBlock), Lead: l.lead}
	before, err := l.Stats()
	if err != nil {
		return a, err
	}
	pings := min(measurePings, max(int(measureTime/max(a.Want, time.Microsecond)), fewestPings))
	if a.Ping, err = l.Ping(ctx, documentBlock, pings); err != nil {
		return a, err
	}
	after, err := l.Stats()
	if err != nil {
		return a, err
	}
	a.Late = after.since(before)
	a.Share = a.Late.CPUShare()
	there, back := l.profile.Ways[A], l.profile.Ways[B]
	if there.Rate > 0 && there.Loss+back.Loss == 0 {
		for _, segments := range []int{streamAck, 1} {
			bulk, err := l.bulk(ctx, segments)
			if err != nil {
				return a, err
			}
			a.Bulk = append(a.Bulk, bulk)
		}
	}
	a.Echo = l.askPing(ctx, tools.Ping)
	a.TCP = l.askIPerf3(ctx, tools.IPerf3)
	return a, ctx.Err()
}

func (l *Link) bulk(ctx context.Context, segments int) (Bulk, error) {
	before, err := l.Stats()
	if err != nil {
		return Bulk{}, err
	}
	s, err := l.Stream(ctx, fullPacket-ipv4Header-udpHeader, segments, measureTime)
	if err != nil {
		return Bulk{}, err
	}
	after, err := l.Stats()
	if err != nil {
		return Bulk{}, err
	}
	used := after.since(before)
	rate := float64(l.profile.Ways[A].Rate) * fullPacket / float64(l.profile.frame(fullPacket))
	return Bulk{
		Segments: segments,
		Want:     rate / 1e6,
		Got:      float64(s.Bytes) * 8 / s.Duration.Seconds() / 1e6,
		Share:    used.CPUShare(),
		Failures: used.Failures(),
	}, nil
}

// pingSummary matches the last line of iputils' ping: rtt min/avg/max/mdev = 0.1/0.2/0.3/0.0 ms.
var pingSummary = regexp.MustCompile(`= [\d.]+/([\d.]+)/`)

func (l *Link) askPing(ctx context.Context, program Program) Tool {
	if program == nil {
		return Tool{Absent: "ping is not here"}
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	out, err := program(ctx, A, "-q", "-c", "20", "-i", "0.02", l.Addr(B).String()).CombinedOutput()
	found := pingSummary.FindSubmatch(out)
	if found == nil {
		return Tool{Absent: fmt.Sprintf("ping says no round trip: %s", outcome(err, out))}
	}
	value, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		return Tool{Absent: err.Error()}
	}
	return Tool{Value: value}
}

func (l *Link) askIPerf3(ctx context.Context, program Program) Tool {
	if program == nil {
		return Tool{Absent: "iperf3 is not here"}
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	server := program(ctx, B, "-s", "-1")
	if err := server.Start(); err != nil {
		return Tool{Absent: err.Error()}
	}
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	}()
	time.Sleep(300 * time.Millisecond) // wait until iperf3 listens, because it does not report that
	out, err := program(ctx, A, "-c", l.Addr(B).String(), "-t", "3", "-O", "1", "-J").Output()
	var result struct {
		End struct {
			Received struct {
				Rate float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		} `json:"end"`
	}
	if bad := json.Unmarshal(out, &result); err != nil || bad != nil {
		return Tool{Absent: fmt.Sprintf("iperf3 fails: %s", outcome(errors.Join(err, bad), out))}
	}
	return Tool{Value: result.End.Received.Rate / 1e6}
}

// outcome describes how a program ended, by its error and the last line of its output.
func outcome(err error, out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return fmt.Sprintf("%v: %s", err, lines[len(lines)-1])
}
