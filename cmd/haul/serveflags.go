package main

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/site"
	"github.com/haul-project/haul/tftp"
	"github.com/haul-project/haul/tftp/transfer"
)

// serveFlags are the flags of "haul serve".
type serveFlags struct {
	dirs        []string // the arguments
	mayFallBack bool     // --tftp was not given

	tftp, sftp, allow, deny, roots, access []string
	http, https                            []string
	allowed, denied                        []netip.Prefix // of allow and deny
	singlePort                             bool
	ports, mtu                             string
	mapFile, perClient                     string
	foldCase, shared                       bool
	upload, uploadDir                      string
	maxUpload, memory                      int64
	loops                                  int
	maxTransfers, maxPerClient, rate       int
	blksize, windowsize                    int
	grace                                  time.Duration
	user, metrics, logFormat               string
	quiet, noOffload, restartable          bool
	trace                                  traceFlags
	ssh                                    sftpFlags
	web                                    httpFlags
}

func (f *serveFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.tftp, "tftp", []string{":69"}, "`address` for TFTP, or several")
	flags.StringSliceVar(&f.http, "http", nil, "`address` for HTTP, or several, such as :8080; TFTP is then served only if --tftp says so, too")
	flags.StringSliceVar(&f.https, "https", nil, "`address` for HTTPS, or several; takes --cert")
	flags.StringSliceVar(&f.sftp, "sftp", nil, "`address` for SFTP, or several, such as :2022; TFTP is then served only if --tftp says so, too")
	flags.BoolVar(&f.singlePort, "single-port", false, "answer from the port that was asked, for NAT and containers")
	flags.StringVar(&f.ports, "ports", "", "`FIRST-LAST` port that transfers take, for firewalls; empty lets the kernel choose")
	flags.StringVar(&f.mtu, "mtu", "auto", "size of IP packet in `bytes` that blocks must fit; auto asks the kernel, none lets clients choose")

	flags.StringArrayVar(&f.roots, "root", nil, "other directory for some clients, as `CLIENT=DIR`; repeat for more")
	flags.StringVar(&f.perClient, "per-client", "", "directory for each client below DIR, by `ip or mac`")
	flags.BoolVar(&f.shared, "shared", false, "with --per-client, what is missing there comes from DIR")
	flags.StringVar(&f.mapFile, "map", "", "`file` of rules that rewrite names, as of tftpd-hpa -m")
	flags.BoolVar(&f.foldCase, "fold-case", false, "find files whatever the case of their names")
	flags.StringArrayVar(&f.access, "access", nil, "`rule` on who may read or write what; repeat for more")
	flags.StringSliceVar(&f.allow, "allow", nil, "only these `networks` may ask")
	flags.StringSliceVar(&f.deny, "deny", nil, "these `networks` may not ask")

	flags.StringVar(&f.upload, "upload", "", "let clients write files: `create` new ones, overwrite too, or unique: each with a time stamp, which the log tells")
	flags.StringVar(&f.uploadDir, "upload-dir", "", "`directory` for uploads, from which nothing is served")
	flags.Int64Var(&f.maxUpload, "max-upload", tftp.DefaultMaxUpload, "largest upload in `bytes` by TFTP and HTTP, of users too")

	flags.IntVar(&f.maxTransfers, "max-transfers", tftp.DefaultMaxTransfers, "most transfers at the same time")
	flags.IntVar(&f.maxPerClient, "max-per-client", 0, "most transfers at the same time from one address; 0 means no limit of its own")
	flags.IntVar(&f.rate, "rate", 0, fmt.Sprintf("most requests a second from one address; 0 means %d but for this machine, -1 no limit", tftp.DefaultRate))
	flags.IntVar(&f.loops, "loops", 0, fmt.Sprintf("most event loops for an address, up to %d; 0 means one for two CPUs", mostLoops))
	flags.Int64Var(&f.memory, "memory", tftp.DefaultMemory, "most `bytes` that transfers hold in buffers")
	flags.IntVar(&f.blksize, "blksize", 0, "largest block size to agree to, in `bytes`; 0 means any")
	flags.IntVar(&f.windowsize, "windowsize", tftp.DefaultWindow, "largest window to agree to, in `blocks`")
	flags.DurationVar(&f.grace, "grace", tftp.DefaultGrace, "how long transfers may run on after the first signal; calls to a disk that hangs get 20s more")

	flags.StringVar(&f.user, "user", "", "become this `user` once the ports are open: NAME, NAME:GROUP or UID:GID")
	flags.StringVar(&f.metrics, "metrics", "", "`address` for Prometheus metrics by HTTP, best 127.0.0.1:PORT, as anybody who gets there can see them and keep others away; empty means none")
	flags.BoolVar(&f.restartable, "restartable", false, "keep a process by that starts a successor at SIGUSR2, which takes the sockets over; nobody is disconnected")
	flags.StringVar(&f.logFormat, "log-format", "text", "`text or json`")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "log failures only")
	flags.BoolVar(&f.noOffload, "no-offload", false, "let the kernel neither cut nor join datagrams")
	f.trace.add(cmd)
	f.ssh.add(cmd)
	f.web.add(cmd)

	for flag, words := range map[string][]cobra.Completion{
		"upload":     {"create", "overwrite", "unique"},
		"per-client": {"ip", "mac"},
		"log-format": {"text", "json"},
		"mtu":        {"auto", "none", "1500"},
	} {
		cobra.CheckErr(cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)))
	}
	cobra.CheckErr(cmd.MarkFlagDirname("upload-dir"))
}

// tftpOnly are flags that mean nothing without TFTP.
var tftpOnly = strings.Fields(`single-port ports mtu max-transfers max-per-client rate loops memory blksize windowsize no-offload
	trace pcap trace-hex`)

// choose decides which protocols are served. given reports whether the command
// line has a flag.
func (f *serveFlags) choose(given func(flag string) bool) error {
	f.mayFallBack = !given("tftp")
	if !given("tftp") && (given("sftp") || given("http") || given("https")) {
		f.tftp = nil // an address that is empty, as of a variable that is not set, is none of TFTP either
	}
	for _, flag := range tftpOnly {
		if given(flag) && !f.servesTFTP() {
			return usagef("--%s is for TFTP, which is not served; add --tftp :69", flag)
		}
	}
	for _, flag := range fileRules {
		if given(flag) && !f.servesAnybody() {
			return usagef("--%s is for TFTP, and for HTTP without --http-auth, neither of which is served; add --tftp :69 or --http :80", flag)
		}
	}
	if given("max-upload") && !f.servesTFTP() && !f.servesHTTP() {
		return usagef("--max-upload is for TFTP and HTTP, neither of which is served; add --tftp :69 or --http :80")
	}
	for _, flag := range httpOnly {
		if given(flag) && !f.servesHTTP() {
			return usagef("--%s is for HTTP, which is not served; add --http :80 or --https :443", flag)
		}
	}
	for _, flag := range sftpOnly {
		if given(flag) && !f.servesSFTP() {
			return usagef("--%s is for SFTP, which is not served; add --sftp :2022", flag)
		}
	}
	return nil
}

func (f *serveFlags) servesTFTP() bool { return anyAddr(f.tftp) }
func (f *serveFlags) servesSFTP() bool { return anyAddr(f.sftp) }

// anyAddr reports whether a list of addresses is one, rather than switched off.
func anyAddr(addrs []string) bool {
	return slices.ContainsFunc(addrs, func(a string) bool { return a != "" })
}

// check checks the flags that several protocols share.
func (f *serveFlags) check() error {
	if !f.servesTFTP() && !f.servesSFTP() && !f.servesHTTP() {
		return usagef("nothing to serve: --tftp is empty, and so are --sftp, --http and --https")
	}
	if !f.servesAnybody() && len(f.dirs) > 1 {
		return usagef("those who log in get one directory, and %d are named; only TFTP, and HTTP without users, search several (users can have other directories, see haul user --help)", len(f.dirs))
	}
	if err := f.checkHTTP(); err != nil {
		return err
	}
	if err := f.checkNumbers(); err != nil {
		return err
	}
	if err := checkAddrs("tftp", "udp", f.tftp); err != nil && f.servesTFTP() {
		return err
	}
	if err := checkAddrs("sftp", "tcp", f.sftp); err != nil && f.servesSFTP() {
		return err
	}
	if f.logFormat != "text" && f.logFormat != "json" {
		return usagef("--log-format %s: choose text or json", f.logFormat)
	}
	var err error
	if f.allowed, err = parseNetworks("allow", f.allow); err != nil {
		return err
	}
	if f.denied, err = parseNetworks("deny", f.deny); err != nil {
		return err
	}
	return f.ssh.check()
}

// checkAddrs checks the addresses that a flag gives.
func checkAddrs(flag, network string, addrs []string) error {
	for _, addr := range addrs {
		_, port, err := net.SplitHostPort(addr)
		if err == nil {
			_, err = net.LookupPort(network, port)
		}
		if err != nil {
			return usagef("--%s %q: %w; it is HOST:PORT or :PORT", flag, addr, err)
		}
	}
	return nil
}

// server checks the flags of TFTP alone, and makes a server of them.
func (f *serveFlags) server() (*tftp.Server, error) {
	srv := &tftp.Server{
		SinglePort:   f.singlePort,
		MaxUpload:    f.maxUpload,
		MaxTransfers: f.maxTransfers,
		MaxPerClient: f.maxPerClient,
		Rate:         f.rate,
		Memory:       f.memory,
		Loops:        f.loops,
		Grace:        f.grace,
		Limits:       transfer.Limits{BlockSize: f.blksize, Window: f.windowsize},
		Plain:        f.noOffload,
		Allow:        f.allowed,
		Deny:         f.denied,
	}
	var err error
	if srv.FirstPort, srv.LastPort, err = parsePorts(f.ports); err != nil {
		return nil, err
	}
	if f.singlePort && f.ports != "" {
		return nil, usagef("--single-port and --ports exclude each other: with the first there is but one port")
	}
	srv.MTU, err = parseMTU(f.mtu)
	return srv, err
}

func (f *serveFlags) checkNumbers() error {
	switch {
	case f.maxUpload <= 0:
		return usagef("--max-upload %d: must be above 0", f.maxUpload)
	case f.maxTransfers <= 0 || f.maxTransfers > mostTransfers:
		return usagef("--max-transfers %d: it is 1 to %d", f.maxTransfers, mostTransfers)
	case f.maxPerClient < 0:
		return usagef("--max-per-client %d: must not be below 0", f.maxPerClient)
	case f.rate < -1:
		return usagef("--rate %d: it is -1 for no limit, 0, or a number above", f.rate)
	case f.memory < leastMemory || f.memory > mostMemory:
		return usagef("--memory %d: it is %d to %d bytes", f.memory, leastMemory, int64(mostMemory))
	case f.loops < 0 || f.loops > mostLoops:
		return usagef("--loops %d: it is 0 to %d", f.loops, mostLoops)
	case f.windowsize == 0:
		return usagef("--windowsize 0: it is 1 to 65535 blocks")
	case f.grace <= 0:
		return usagef("--grace %v: must be above 0", f.grace)
	}
	if err := (transfer.Options{BlockSize: f.blksize, Window: f.windowsize}).Check(); err != nil {
		return usagef("--%w", err) // it begins with the option's name
	}
	return nil
}

const (
	leastMemory = 1 << 20 // bytes: enough for some transfers with any block size
	mostMemory  = 1 << 40

	mostTransfers = 1 << 20
	mostLoops     = 1024
)

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
		return 0, 0, usagef("--ports %s: it is FIRST-LAST, both from 1 to 65535", s)
	}
	return uint16(low), uint16(high), nil
}

// Bounds of --mtu, in bytes: what IPv4 asks of every link, and what its packets
// can have.
const (
	leastMTU = 68
	mostMTU  = 65535
)

func parseMTU(s string) (int, error) {
	switch s {
	case "auto":
		return 0, nil
	case "none":
		return -1, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < leastMTU || n > mostMTU {
		return 0, usagef("--mtu %s: it is auto, none, or %d to %d bytes", s, leastMTU, mostMTU)
	}
	return n, nil
}

func parseNetworks(flag string, words []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, w := range words {
		m, err := site.ParseMatch(w)
		if err != nil || len(m.Nets) == 0 || len(m.MACs)+len(m.Listeners) > 0 {
			return nil, usagef("--%s %s: it is an address or a network, such as 192.0.2.0/24 or 2001:db8::/32", flag, w)
		}
		all = append(all, m.Nets...)
	}
	return all, nil
}

// What TFTP needs besides --memory, in bytes: docs/protocol.md, "Memory".
const (
	fixedMemory    = 24 << 20
	memoryPerCPU   = 20 << 20
	memoryPerEntry = 16 << 10 // for each transfer
)

// sftpGarbage is how much larger, in percent, the heap of an SFTP server may
// grow before it is collected. x/crypto allocates for each packet, and what lives
// is so little that by default it is collected for every 4 MB that are uploaded:
// a fifth of what an upload costs.
const sftpGarbage = 400

// boundHeap has the garbage collector work harder before the process outgrows
// what is documented, and less before. GOMEMLIMIT and GOGC, if they are set, go
// first.
func (f *serveFlags) boundHeap() {
	if os.Getenv("GOMEMLIMIT") == "" {
		limit := int64(fixedMemory)
		if f.servesTFTP() {
			cpus, transfers := int64(runtime.GOMAXPROCS(0)), int64(f.maxTransfers)
			limit += cpus*memoryPerCPU + transfers*memoryPerEntry + f.memory
		}
		if f.servesSFTP() {
			limit += f.ssh.memory()
		}
		if f.servesHTTP() {
			limit += httpMemory
		}
		debug.SetMemoryLimit(limit)
	}
	if f.servesSFTP() && os.Getenv("GOGC") == "" {
		debug.SetGCPercent(sftpGarbage)
	}
}

// Descriptors: what a transfer needs, and what is kept for sockets, directories
// and metrics.
const (
	filesPerRead  = 1
	filesPerWrite = 2
	spareFiles    = 128
)

// fitDescriptors takes fewer transfers where there would not be descriptors for
// all. The server makes room among its own, but can do nothing when an open fails.
func (f *serveFlags) fitDescriptors(srv *tftp.Server, limit int) {
	each := filesPerRead
	if f.upload != "" {
		each = filesPerWrite
	}
	most := max(1, (limit-min(spareFiles, limit/2))/each)
	if srv.MaxTransfers > most {
		srv.MaxTransfers = most
		srv.Log.Info("taking fewer transfers at the same time, as the limit on open files (ulimit -n, LimitNOFILE=) wants",
			"transfers", most, "open files", limit)
	}
}

// log returns the log that the flags ask for.
func (f *serveFlags) log(out io.Writer) *slog.Logger {
	out = &plainWriter{out: out}
	o := &slog.HandlerOptions{Level: slog.LevelInfo}
	if f.quiet {
		o.Level = slog.LevelWarn
	}
	if f.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(out, o))
	}
	return slog.New(slog.NewTextHandler(out, o))
}
