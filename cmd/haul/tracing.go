package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/tftp/trace"
)

// traceFlags say which packets are shown, and where.
type traceFlags struct {
	peers []string // "all", addresses and networks; none: no text
	pcap  string
	hex   int
}

func (f *traceFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.peers, "trace", nil, "show packets; limit them with --trace=`ADDRESS`, or a network")
	flags.StringVar(&f.pcap, "pcap", "", "write packets to this `FILE` as pcapng, for Wireshark; all, or those of --trace=ADDRESS")
	flags.IntVar(&f.hex, "trace-hex", 0, "with --trace, show `N` bytes of each packet in hexadecimal (65507: all)")
	flags.Lookup("trace").NoOptDefVal = traceAll
}

const traceAll = "all"

// A tracer shows packets.
type tracer struct {
	*trace.Tracer
	file *os.File // of --pcap; nil without
	path string
}

// open begins a trace on out; it returns nil if none is asked for.
func (f *traceFlags) open(out io.Writer) (*tracer, error) {
	if f.hex > trace.MaxDatagram || f.hex < 0 {
		return nil, usagef("--trace-hex %d: it is 0 to %d bytes", f.hex, trace.MaxDatagram)
	}
	if len(f.peers) == 0 && f.pcap == "" {
		return nil, nil
	}
	c := trace.Config{HexBytes: f.hex}
	for _, p := range f.peers {
		if p == traceAll {
			c.Only = nil
			break
		}
		networks, err := parseNetworks("trace", []string{p})
		if err != nil {
			return nil, err
		}
		c.Only = append(c.Only, networks...)
	}
	if len(f.peers) > 0 {
		c.Text = out
	}
	t := &tracer{path: f.pcap}
	if f.pcap != "" {
		file, err := os.Create(f.pcap)
		if err != nil {
			return nil, localError{fmt.Errorf("write %s: %w", f.pcap, console.WithoutPath(err))}
		}
		t.file, c.Pcap = file, file
	}
	t.Tracer = trace.New(c)
	return t, nil
}

// record is what a server or client calls for each datagram.
func (t *tracer) record(at time.Time, sent bool, peer, local netip.AddrPort, data []byte) {
	t.Record(trace.Packet{Time: at, Sent: sent, Peer: peer, Local: local, Data: data})
}

// closeTrace ends a trace, and says on out what is missing from it.
func closeTrace(t *tracer, out io.Writer) {
	if t == nil {
		return
	}
	if err := t.Close(); err != nil {
		fmt.Fprintf(out, "haul: trace: %v\n", err)
	}
	if t.file == nil {
		return
	}
	if err := t.file.Close(); err != nil {
		fmt.Fprintf(out, "haul: write %s: %v\n", t.path, console.WithoutPath(err))
	}
	if n := t.Lost(); n > 0 {
		fmt.Fprintf(out, "haul: %s lacks %d packets, for which the disk was too slow\n", t.path, n)
	}
}

// behind returns a log whose lines stand behind the packets that they follow, where
// both are shown in one place.
func (t *tracer) behind(log *slog.Logger) *slog.Logger {
	return slog.New(tracedLog{log.Handler(), t})
}

// A tracedLog waits for the trace before it writes a line.
type tracedLog struct {
	slog.Handler
	tracer *tracer
}

// maxTraceWait is how long a line waits for the trace.
const maxTraceWait = time.Second

func (l tracedLog) Handle(ctx context.Context, r slog.Record) error {
	l.tracer.Sync(maxTraceWait)
	return l.Handler.Handle(ctx, r)
}

func (l tracedLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return tracedLog{l.Handler.WithAttrs(attrs), l.tracer}
}

func (l tracedLog) WithGroup(name string) slog.Handler {
	return tracedLog{l.Handler.WithGroup(name), l.tracer}
}
