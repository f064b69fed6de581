package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
	"github.com/haul-project/haul/cmd/haul/internal/server/config"
	"github.com/haul-project/haul/cmd/haul/internal/tftp/trace"
	"github.com/haul-project/haul/tftp/transfer"
)

// tftpFlags holds the flags of get, put and probe that only TFTP has.
type tftpFlags struct {
	blksize, windowsize int
	timeout, utimeout   time.Duration
	rollover            int
	netascii            bool
	noOptions           bool
	noOffload           bool
	noReorder           bool // for downloads only: drop packets that arrive out of order
	trace               trace.Setup
}

func (f *tftpFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&f.blksize, "blksize", 0, "ask for blocks of `N` bytes, 8 to 65464 (0: what fits the path)")
	flags.IntVar(&f.windowsize, "windowsize", 0, "ask for windows of `N` blocks, 1 to 65535 (0: choose automatically)")
	flags.DurationVar(&f.timeout, "timeout", 0, "ask for this `TIME` as timeout, 1s to 255s (0: do not ask)")
	flags.DurationVar(&f.utimeout, "utimeout", 0, "ask for this `TIME` as timeout by tftp-hpa's option utimeout, 10ms to 255s (0: do not ask)")
	flags.IntVar(&f.rollover, "rollover", -1, "ask for `N` as the block number after 65535, 0 or 1 (-1: do not ask)")
	flags.BoolVar(&f.netascii, "netascii", false, "transfer text, and convert its line ends")
	flags.BoolVar(&f.noOptions, "no-options", false, "ask for no options: 512-byte blocks, one at a time")
	flags.BoolVar(&f.noOffload, "no-offload", false, "do not let the kernel split and join datagrams")
	addTrace(cmd, &f.trace)
}

// addDownloads adds the same flags as add, and the flag that only downloads have.
func (f *tftpFlags) addDownloads(cmd *cobra.Command) {
	f.add(cmd)
	cmd.Flags().BoolVar(&f.noReorder, "no-reorder", false, "drop packets that arrive out of order, for measurements")
}

// config checks the flags, and returns the configuration.
func (f *tftpFlags) config() (cfg remote.TFTPConfig, err error) {
	cfg = remote.TFTPConfig{
		BlockSize:    f.blksize,
		Window:       f.windowsize,
		Timeout:      f.timeout,
		MicroTimeout: f.utimeout,
		Netascii:     f.netascii,
		NoOptions:    f.noOptions,
		NoOffload:    f.noOffload,
		NoReorder:    f.noReorder,
	}
	switch f.rollover {
	case -1:
	case 0:
		cfg.Rollover = transfer.RolloverZero
	case 1:
		cfg.Rollover = transfer.RolloverOne
	default:
		return cfg, failure.Usage.Errorf("--rollover %d: choose 0 or 1", f.rollover)
	}
	cfg.Trace = f.trace
	return cfg, checkTrace(f.trace)
}

// addTrace adds the flags that say which packets to show, and where.
func addTrace(cmd *cobra.Command, to *trace.Setup) {
	flags := cmd.Flags()
	flags.Var(config.TraceValue(to), "trace", "show packets; --trace=`ADDRESS` only those of an address or a network")
	flags.StringVar(&to.Pcap, "pcap", "", "write packets to `FILE` as pcapng, for Wireshark: all, or those of --trace=ADDRESS")
	flags.IntVar(&to.HexBytes, "trace-hex", 0, "with --trace, show `N` bytes of each packet in hexadecimal (65507: all)")
	flags.Lookup("trace").NoOptDefVal = config.AllPeers
}

func checkTrace(t trace.Setup) error {
	if t.HexBytes > trace.MaxDatagram || t.HexBytes < 0 {
		return failure.Usage.Errorf("--trace-hex %d: it is 0 to %d bytes", t.HexBytes, trace.MaxDatagram)
	}
	return nil
}
