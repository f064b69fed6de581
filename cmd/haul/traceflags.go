package main

import (
	"net/netip"

	"github.com/spf13/cobra"

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

// config checks the flags, and returns what they say.
func (f *traceFlags) config() (t trace.Setup, err error) {
	if f.hex > trace.MaxDatagram || f.hex < 0 {
		return t, failure.Usage.Errorf("--trace-hex %d: it is 0 to %d bytes", f.hex, trace.MaxDatagram)
	}
	t = trace.Setup{Text: len(f.peers) > 0, Pcap: f.pcap, HexBytes: f.hex}
	t.Only, err = f.only()
	return t, err
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
