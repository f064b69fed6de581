package remote

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/tftp/trace"
	"github.com/haul-project/haul/tftp/tftpclient"
	"github.com/haul-project/haul/tftp/transfer"
)

// A TFTPConfig says how to speak TFTP. See [tftpclient.Client] for fields without a comment.
type TFTPConfig struct {
	BlockSize    int
	Window       int
	Timeout      time.Duration
	MicroTimeout time.Duration
	Rollover     transfer.Rollover
	Netascii     bool // transfer text, and convert its line ends
	NoOptions    bool
	NoOffload    bool // keep the kernel from splitting and joining datagrams
	NoReorder    bool

	Trace trace.Setup // the packet trace; its text goes to standard error
}

// Target parses a location. Unlike File, it also accepts the name of a directory, as the target of
// uploads.
func (c *TFTPConfig) Target(l Location) (tftpclient.Target, error) {
	t, err := ParseTFTP(l.Text)
	if err == nil && c.Netascii {
		t.Mode = transfer.Netascii
	}
	return t, err
}

// File parses a location that must name a file.
func (c *TFTPConfig) File(l Location) (tftpclient.Target, error) {
	t, err := c.Target(l)
	if err == nil {
		if err = t.Check(); err != nil {
			err = failure.Usage.Errorf("URL %q: %w", l.Text, err)
		}
	}
	return t, err
}

// TFTPClients makes clients that share one packet trace.
type TFTPClients struct {
	cfg    TFTPConfig
	tracer *trace.Recorder // records the packets of all clients; nil if there is no trace
	out    io.Writer
}

// OpenTFTP checks a configuration, and starts the trace. The text of the trace is written to out.
func OpenTFTP(cfg TFTPConfig, out io.Writer) (*TFTPClients, error) {
	o := transfer.Options{BlockSize: cfg.BlockSize, Window: cfg.Window, Timeout: cfg.Timeout, MicroTimeout: cfg.MicroTimeout}
	if err := o.Check(); err != nil {
		return nil, failure.Usage.Wrap(err)
	}
	if cfg.Trace.HexBytes != 0 && !cfg.Trace.Text {
		return nil, failure.Usage.Errorf("--trace-hex needs --trace: it shows the bytes of the packets that --trace shows")
	}
	tracer, err := cfg.Trace.Open(out)
	if err != nil {
		return nil, failure.Local.Errorf("write %s: %w", cfg.Trace.Pcap, console.WithoutPath(err))
	}
	return &TFTPClients{cfg, tracer, out}, nil
}

// Client returns a new client, for the transfer of one file.
func (t *TFTPClients) Client() *tftpclient.Client {
	c := &tftpclient.Client{
		BlockSize:    t.cfg.BlockSize,
		Window:       t.cfg.Window,
		Timeout:      t.cfg.Timeout,
		MicroTimeout: t.cfg.MicroTimeout,
		Rollover:     t.cfg.Rollover,
		NoOptions:    t.cfg.NoOptions,
		Plain:        t.cfg.NoOffload,
		NoReorder:    t.cfg.NoReorder,
	}
	if t.tracer != nil {
		c.Trace = t.tracer.Datagram
	}
	return c
}

// Close ends the trace. If packets are missing in the trace, it prints that to the output of the
// trace.
func (t *TFTPClients) Close() {
	if t.tracer == nil {
		return
	}
	for _, problem := range t.tracer.Finish() {
		fmt.Fprintf(t.out, "haul: %s\n", console.Visible(problem.Error()))
	}
}

// ParseTFTP parses a tftp URL. Errors are usage errors.
func ParseTFTP(s string) (tftpclient.Target, error) {
	t, err := tftpclient.ParseURL(s)
	switch hint := MissingScheme(s); {
	case err == nil:
		return t, nil
	case hint != nil:
		return t, hint
	}
	return t, failure.Usage.Wrap(err)
}

// MissingScheme returns an error if s is a URL without its scheme, which is a common mistake.
// Package net/url would parse such a URL as a path, or its host as a scheme. If s would not be a
// URL even with a scheme, MissingScheme returns nil.
func MissingScheme(s string) error {
	if strings.Contains(s, "://") || !strings.Contains(s, "/") || strings.HasPrefix(s, ".") {
		return nil
	}
	if _, err := tftpclient.ParseURL("tftp://" + s); err != nil {
		return nil
	}
	return failure.Usage.Errorf("URL %q: it has no scheme; write tftp://%s", s, s)
}
