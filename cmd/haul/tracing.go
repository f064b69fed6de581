package main

import (
	"fmt"
	"io"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/internal/failure"
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
	flags.StringSliceVar(&f.peers, "trace", nil, "show packets; --trace=`ADDRESS` only those of an address or a network")
	flags.StringVar(&f.pcap, "pcap", "", "write packets to `FILE` as pcapng, for Wireshark: all, or those of --trace=ADDRESS")
	flags.IntVar(&f.hex, "trace-hex", 0, "with --trace, show `N` bytes of each packet in hexadecimal (65507: all)")
	flags.Lookup("trace").NoOptDefVal = traceAll
}

const traceAll = "all"

// open begins a trace on out; it returns nil if none is asked for.
func (f *traceFlags) open(out io.Writer) (*trace.Recorder, error) {
	if f.hex > trace.MaxDatagram || f.hex < 0 {
		return nil, failure.Usage.Errorf("--trace-hex %d: it is 0 to %d bytes", f.hex, trace.MaxDatagram)
	}
	if len(f.peers) == 0 && f.pcap == "" {
		return nil, nil
	}
	only, err := f.only()
	if err != nil {
		return nil, err
	}
	c := trace.Config{HexBytes: f.hex, Only: only}
	if len(f.peers) > 0 {
		c.Text = out
	}
	r, err := trace.NewRecorder(c, f.pcap)
	if err != nil {
		return nil, failure.Local.Errorf("write %s: %w", f.pcap, console.WithoutPath(err))
	}
	return r, nil
}

// only returns the networks whose packets are shown; none means all.
func (f *traceFlags) only() (networks []netip.Prefix, err error) {
	for _, p := range f.peers {
		if p == traceAll {
			return nil, nil
		}
		more, err := parseNetworks("trace", []string{p})
		if err != nil {
			return nil, err
		}
		networks = append(networks, more...)
	}
	return networks, nil
}

// closeTrace ends a trace, and prints what is missing from it.
func closeTrace(r *trace.Recorder, out io.Writer) {
	if r == nil {
		return
	}
	for _, problem := range r.Finish() {
		fmt.Fprintf(out, "haul: %v\n", problem)
	}
}
