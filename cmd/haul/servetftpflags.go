package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/internal/serve"
	"github.com/haul-project/haul/tftp"
)

// tftpOnly are flags that mean nothing without TFTP.
var tftpOnly = strings.Fields(`single-port ports mtu max-transfers max-per-client rate loops memory blksize windowsize no-offload
	trace pcap trace-hex upload-parents`)

// addTFTP adds the flags of TFTP.
func (f *serveFlags) addTFTP(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.TFTP.Listen, "tftp", f.TFTP.Listen, "serve TFTP on `ADDRESS`, HOST:PORT or :PORT; several are separated by commas")
	flags.BoolVar(&f.TFTP.SinglePort, "single-port", false, "answer from the port that the request came to, for NAT and containers")
	flags.StringVar(&f.ports, "ports", "", "use ports `FIRST-LAST` for transfers, for firewalls (default: the kernel chooses)")
	flags.StringVar(&f.mtu, "mtu", "auto", "send IP packets of at most `N` bytes; auto asks the kernel, none lets clients choose")
	flags.IntVar(&f.TFTP.MaxTransfers, "max-transfers", f.TFTP.MaxTransfers, "at most `N` TFTP transfers at a time")
	flags.IntVar(&f.TFTP.MaxPerClient, "max-per-client", 0, "at most `N` TFTP transfers at a time for one address (0: no limit for single addresses)")
	flags.IntVar(&f.TFTP.Rate, "rate", 0, fmt.Sprintf("at most `N` TFTP requests a second from one address (0: %d, localhost exempt; -1: no limit)", tftp.DefaultRate))
	flags.IntVar(&f.TFTP.Loops, "loops", 0, fmt.Sprintf("at most `N` event loops for one TFTP address, up to %d (0: one for two CPUs)", serve.MaxLoops))
	sizeVar(flags, &f.TFTP.Memory, "memory", f.TFTP.Memory, "use at most this much memory for the buffers of all TFTP transfers")
	flags.IntVar(&f.TFTP.BlockSize, "blksize", 0, "agree to TFTP blocks of at most `N` bytes (0: any)")
	flags.IntVar(&f.TFTP.WindowSize, "windowsize", f.TFTP.WindowSize, "agree to TFTP windows of at most `N` blocks")
	flags.BoolVar(&f.TFTP.NoOffload, "no-offload", false, "do not let the kernel split and join datagrams")
	flags.BoolVar(&f.TFTP.UploadParents, "upload-parents", false, "make missing directories for uploads over TFTP, as uploads over HTTP do")
	f.trace.add(cmd)
	completeWords(cmd, "mtu", "auto", "none", "1500")
}

func (f *serveFlags) parseTFTP() (err error) {
	if f.TFTP.FirstPort, f.TFTP.LastPort, err = parsePorts(f.ports); err != nil {
		return err
	}
	if f.TFTP.MTU, err = parseMTU(f.mtu); err != nil {
		return err
	}
	f.Trace = serve.Trace{Text: len(f.trace.peers) > 0, Pcap: f.trace.pcap, HexBytes: f.trace.hex}
	f.Trace.Only, err = f.trace.only()
	return err
}

// parsePorts reads "FIRST-LAST" or one port.
func parsePorts(s string) (first, last uint16, err error) {
	if s == "" {
		return 0, 0, nil
	}
	a, b, several := strings.Cut(s, "-")
	if !several {
		b = a
	}
	low, err1 := strconv.ParseUint(a, 10, 16)
	high, err2 := strconv.ParseUint(b, 10, 16)
	if err1 != nil || err2 != nil || low == 0 || low > high {
		return 0, 0, failure.Usage.Errorf("--ports %s: it is FIRST-LAST, both from 1 to 65535", s)
	}
	return uint16(low), uint16(high), nil
}

func parseMTU(s string) (int, error) {
	switch s {
	case "auto":
		return 0, nil
	case "none":
		return -1, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < serve.MinMTU || n > serve.MaxMTU {
		return 0, failure.Usage.Errorf("--mtu %s: it is auto, none, or %d to %d bytes", s, serve.MinMTU, serve.MaxMTU)
	}
	return n, nil
}
