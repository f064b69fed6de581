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
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/console"
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
	foldCase, shared, hidden               bool
	upload, uploadDir                      string
	maxUpload, memory                      int64
	loops                                  int
	maxTransfers, maxPerClient, rate       int
	blksize, windowsize                    int
	grace                                  time.Duration
	user, metrics, logFormat               string
	quiet, noOffload, restartable          bool
	uploadParents                          bool
	trace                                  traceFlags
	ssh                                    sftpFlags
	web                                    httpFlags
}

func (f *serveFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.tftp, "tftp", []string{":69"}, "`ADDRESS` for TFTP, HOST:PORT or :PORT; several are separated by commas")
	flags.StringSliceVar(&f.http, "http", nil, "`ADDRESS` for HTTP, such as :8080; TFTP is then served only with --tftp")
	flags.StringSliceVar(&f.https, "https", nil, "`ADDRESS` for HTTPS, such as :8443; needs --cert")
	flags.StringSliceVar(&f.sftp, "sftp", nil, "`ADDRESS` for SFTP, such as :2022; TFTP is then served only with --tftp")
	flags.BoolVar(&f.singlePort, "single-port", false, "answer from the port that was asked, for NAT and containers")
	flags.StringVar(&f.ports, "ports", "", "ports that TFTP transfers take, as `FIRST-LAST`, for firewalls (default: the kernel chooses)")
	flags.StringVar(&f.mtu, "mtu", "auto", "largest IP packet that TFTP sends, `N` bytes; auto asks the kernel, none lets clients choose")

	flags.StringArrayVar(&f.roots, "root", nil, "other directory for some clients, as `CLIENT=DIR`; repeat for more")
	flags.StringVar(&f.perClient, "per-client", "", "directory for each client below DIR: `BY` is ip or mac")
	flags.BoolVar(&f.shared, "shared", false, "with --per-client, what is missing there comes from DIR")
	flags.StringVar(&f.mapFile, "map", "", "`FILE` of rules that rewrite names, as tftpd-hpa -m takes it")
	flags.BoolVar(&f.foldCase, "fold-case", false, "find files whatever the case of their names")
	flags.BoolVar(&f.hidden, "hidden", false, "serve and take names that begin with a dot, too; users who log in always have theirs")
	flags.StringArrayVar(&f.access, "access", nil, "`RULE` on who may read or write what; repeat for more")
	flags.StringSliceVar(&f.allow, "allow", nil, "serve only this `NETWORK`; several are separated by commas")
	flags.StringSliceVar(&f.deny, "deny", nil, "do not serve this `NETWORK`; several are separated by commas")

	flags.StringVar(&f.upload, "upload", "", "let clients write files: `MODE` is create (new names only), overwrite (replace files too) or unique (add a time stamp to each name; see the log)")
	flags.StringVar(&f.uploadDir, "upload-dir", "", "write uploads to this `DIR`, from which nothing is served")
	flags.BoolVar(&f.uploadParents, "upload-parents", false, "make the missing directories of uploads by TFTP, as uploads by HTTP do")
	sizeVar(flags, &f.maxUpload, "max-upload", tftp.DefaultMaxUpload, "largest upload by TFTP and HTTP, of users too")

	flags.IntVar(&f.maxTransfers, "max-transfers", tftp.DefaultMaxTransfers, "at most `N` TFTP transfers at a time")
	flags.IntVar(&f.maxPerClient, "max-per-client", 0, "at most `N` TFTP transfers at a time for one address (0: no limit for single addresses)")
	flags.IntVar(&f.rate, "rate", 0, fmt.Sprintf("at most `N` TFTP requests a second from one address (0: %d, localhost exempt; -1: no limit)", tftp.DefaultRate))
	flags.IntVar(&f.loops, "loops", 0, fmt.Sprintf("at most `N` event loops for an address of TFTP, up to %d (0: one for two CPUs)", mostLoops))
	sizeVar(flags, &f.memory, "memory", tftp.DefaultMemory, "memory for the buffers of all TFTP transfers together")
	flags.IntVar(&f.blksize, "blksize", 0, "largest TFTP block to agree to, `N` bytes (0: any)")
	flags.IntVar(&f.windowsize, "windowsize", tftp.DefaultWindow, "largest TFTP window to agree to, `N` blocks")
	flags.DurationVar(&f.grace, "grace", tftp.DefaultGrace, "`TIME` that transfers get to finish after the first signal; calls to a disk that hangs get 20s more")

	flags.StringVar(&f.user, "user", "", "become this `USER` once the ports are open: NAME, NAME:GROUP or UID:GID")
	flags.StringVar(&f.metrics, "metrics", "", "`ADDRESS` for Prometheus metrics by HTTP; use 127.0.0.1:PORT, as all who can connect can read them")
	flags.BoolVar(&f.restartable, "restartable", false, "allow restarts without downtime, by SIGUSR2")
	flags.StringVar(&f.logFormat, "log-format", "text", "`FORMAT` of the log: text or json")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "log failures only")
	flags.BoolVar(&f.noOffload, "no-offload", false, "let the kernel neither cut nor join datagrams")
	f.trace.add(cmd)
	f.ssh.add(cmd)
	f.web.add(cmd)

	completeWords(cmd, "upload", "create", "overwrite", "unique")
	completeWords(cmd, "per-client", "ip", "mac")
	completeWords(cmd, "log-format", "text", "json")
	completeWords(cmd, "mtu", "auto", "none", "1500")
}

// tftpOnly are flags that mean nothing without TFTP.
var tftpOnly = strings.Fields(`single-port ports mtu max-transfers max-per-client rate loops memory blksize windowsize no-offload
	trace pcap trace-hex upload-parents`)

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
		if given(flag) && !f.servesAnybody() && (flag != "upload" || !f.servesSFTP()) {
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
	if err := f.checkDistinct(); err != nil {
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
	if f.ssh.hostKeys == noHostKeys && f.restartable {
		return usagef("--host-keys none: after a restart clients would meet another key; --restartable needs a directory of host keys")
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

// checkDistinct refuses one address for two protocols over TCP. The system would say that
// another server has it.
func (f *serveFlags) checkDistinct() error {
	has := map[string]string{}
	for _, p := range []struct {
		flag  string
		addrs []string
	}{{"sftp", f.sftp}, {"http", f.http}, {"https", f.https}} {
		for _, addr := range p.addrs {
			if _, port, err := net.SplitHostPort(addr); err != nil || port == "0" {
				continue
			}
			if other, taken := has[addr]; taken && other != p.flag {
				return usagef("--%s and --%s have the same address, %s; give each a port of its own", other, p.flag, addr)
			}
			has[addr] = p.flag
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
		return usagef("--memory %s: it is %s to %s", console.FormatSize(f.memory), console.FormatSize(leastMemory), console.FormatSize(mostMemory))
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

// Descriptors: what a file that is read needs, however many read it, what an
// upload needs, and what is kept for sockets, directories, files that are being
// opened, and metrics.
const (
	filesPerRead  = 1
	filesPerWrite = 2
	spareFiles    = 128

	// What descriptors allow is logged if it is less than was asked for by a flag, or
	// fewer than these.
	fewFiles = 1000
	fewConns = 100
)

// fitDescriptors opens fewer files where there would not be descriptors for a
// file of each transfer.
func (f *serveFlags) fitDescriptors(srv *tftp.Server, limit int) {
	each := filesPerRead
	if f.upload != "" {
		each = filesPerWrite
	}
	most := max(1, (limit-min(spareFiles, limit/2))/each)
	if srv.MaxTransfers > most {
		srv.MaxFiles = most
		if srv.MaxTransfers != tftp.DefaultMaxTransfers || most < fewFiles {
			srv.Log.Info(fmt.Sprintf("open-file limit %d allows transfers of %d different files at once; raise ulimit -n (LimitNOFILE=) for more", limit, most))
		}
	}
}

// log returns the log that the flags ask for.
func (f *serveFlags) log(out io.Writer) *slog.Logger {
	out = console.NewPlainWriter(out)
	o := &slog.HandlerOptions{Level: slog.LevelInfo}
	if f.quiet {
		o.Level = slog.LevelWarn
	}
	if f.logFormat == "json" {
		o.ReplaceAttr = forPrograms
		return slog.New(slog.NewJSONHandler(out, o))
	}
	o.ReplaceAttr = forPeople
	return slog.New(slog.NewTextHandler(out, o))
}

// forPrograms gives durations in seconds. Text that is not UTF-8, as JSON has it, is
// escaped, under a key that says so: "file_escaped" for "file".
func forPrograms(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindDuration:
		a.Value = slog.Float64Value(a.Value.Duration().Seconds())
	case slog.KindString:
		if s := a.Value.String(); !utf8.ValidString(s) {
			return slog.String(a.Key+"_escaped", console.Visible(s))
		}
	}
	return a
}

// forPeople gives rates with a unit.
func forPeople(_ []string, a slog.Attr) slog.Attr {
	if a.Key == "rate" && a.Value.Kind() == slog.KindInt64 {
		a.Value = slog.StringValue(console.FormatBytes(a.Value.Int64()) + "/s")
	}
	return a
}
