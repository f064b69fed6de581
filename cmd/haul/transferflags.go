package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/internal/remote"
	"github.com/haul-project/haul/tftp"
	"github.com/haul-project/haul/tftp/trace"
	"github.com/haul-project/haul/tftp/transfer"
)

// transferFlags are the flags that get, put and probe share.
type transferFlags struct {
	blksize, windowsize int
	timeout, utimeout   time.Duration
	rollover            int
	netascii            bool
	noOptions           bool
	noOffload           bool
	noReorder           bool // of downloads
	quiet               bool
	trace               traceFlags
}

// addTFTP adds those that TFTP alone has.
func (f *transferFlags) addTFTP(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&f.blksize, "blksize", 0, "ask for blocks of `N` bytes, 8 to 65464 (0: what fits the path)")
	flags.IntVar(&f.windowsize, "windowsize", 0, "ask for windows of `N` blocks, 1 to 65535 (0: choose automatically)")
	flags.DurationVar(&f.timeout, "timeout", 0, "ask for this `TIME` as timeout, 1s to 255s (0: do not ask)")
	flags.DurationVar(&f.utimeout, "utimeout", 0, "ask for this `TIME` as timeout by tftp-hpa's option utimeout, 10ms to 255s (0: do not ask)")
	flags.IntVar(&f.rollover, "rollover", -1, "ask for `N` as the block number after 65535, 0 or 1 (-1: do not ask)")
	flags.BoolVar(&f.netascii, "netascii", false, "transfer text, and convert its line ends")
	flags.BoolVar(&f.noOptions, "no-options", false, "ask for no options: 512-byte blocks, one at a time")
	flags.BoolVar(&f.noOffload, "no-offload", false, "do not let the kernel split and join datagrams")
	f.trace.add(cmd)
}

// addDownloads adds those, and what only downloads have.
func (f *transferFlags) addDownloads(cmd *cobra.Command) {
	f.addTFTP(cmd)
	cmd.Flags().BoolVar(&f.noReorder, "no-reorder", false, "drop packets that arrive out of order, for measurements")
}

// client checks the flags and makes a Client of them, whose packets t shows.
func (f *transferFlags) client(t *trace.Recorder) (*tftp.Client, error) {
	c := &tftp.Client{
		BlockSize:    f.blksize,
		Window:       f.windowsize,
		Timeout:      f.timeout,
		MicroTimeout: f.utimeout,
		NoOptions:    f.noOptions,
		Plain:        f.noOffload,
		NoReorder:    f.noReorder,
	}
	if t != nil {
		c.Trace = t.Datagram
	}
	switch f.rollover {
	case -1:
	case 0:
		c.Rollover = transfer.RolloverZero
	case 1:
		c.Rollover = transfer.RolloverOne
	default:
		return nil, failure.Usage.Errorf("--rollover %d: choose 0 or 1", f.rollover)
	}
	o := transfer.Options{BlockSize: c.BlockSize, Window: c.Window, Timeout: c.Timeout, MicroTimeout: c.MicroTimeout}
	if err := o.Check(); err != nil {
		return nil, failure.Usage.Wrap(err)
	}
	return c, nil
}

// file reads a URL that must name a file, and applies --netascii to it.
func (f *transferFlags) file(rawURL string) (tftp.Target, error) {
	t, err := f.target(rawURL)
	if err == nil {
		if err = t.Check(); err != nil {
			err = failure.Usage.Errorf("URL %q: %w", rawURL, err)
		}
	}
	return t, err
}

// target reads a URL, and applies --netascii to it.
func (f *transferFlags) target(rawURL string) (tftp.Target, error) {
	t, err := remote.ParseTFTP(rawURL)
	if err != nil {
		return t, err
	}
	if f.netascii {
		t.Mode = transfer.Netascii
	}
	return t, nil
}
