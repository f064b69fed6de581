package main

import (
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/internal/serve"
	"github.com/haul-project/haul/site"
)

// serveFlags are the flags of "haul serve". Most are fields of the configuration; those
// that have to be parsed first are text.
type serveFlags struct {
	serve.Config

	allow, deny           []string
	roots, access         []string
	perClient, upload     string
	ports, mtu            string
	sftpExempt            []string
	httpExempt, httpProxy []string
	trace                 traceFlags
}

func (f *serveFlags) add(cmd *cobra.Command) {
	f.Config = serve.Default()
	addGroup(cmd, f.addTFTP, "TFTP")
	addGroup(cmd, f.addSFTP, "SFTP")
	addGroup(cmd, f.addHTTP, "HTTP")
	addGroup(cmd, f.addFiles, "files")
	addGroup(cmd, f.addOps, "ops")
	addGroup(cmd, f.addNetworks, "limits")
	for flag := range strings.FieldsSeq(limitFlags) {
		group(cmd, flag, "limits")
	}
	for flag := range strings.FieldsSeq(traceFlagNames) {
		group(cmd, flag, "ops")
	}
}

// limitFlags are flags of one protocol, or about files, that limit clients, and
// traceFlagNames those of TFTP about packets. Both are explained by topics of their own.
const (
	limitFlags = `max-transfers max-per-client rate loops memory max-upload sftp-rate sftp-conns sftp-conns-per-source sftp-exempt
		http-rate http-conns-per-source http-exempt`
	traceFlagNames = "trace pcap trace-hex"
)

// addNetworks adds the flags about networks that are served.
func (f *serveFlags) addNetworks(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.allow, "allow", nil, "serve only this `NETWORK`; several are separated by commas")
	flags.StringSliceVar(&f.deny, "deny", nil, "do not serve this `NETWORK`; several are separated by commas")
}

// addOps adds the flags about how the server runs.
func (f *serveFlags) addOps(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.DurationVar(&f.Grace, "grace", f.Grace, "`TIME` that transfers get to finish after the first signal; calls to a disk that hangs get 20s more")
	flags.StringVar(&f.User, "user", "", "become this `USER` once the ports are open: NAME, NAME:GROUP or UID:GID")
	flags.StringVar(&f.Metrics, "metrics", "", "`ADDRESS` for Prometheus metrics over HTTP; all who can connect can read them, so use 127.0.0.1:PORT")
	flags.BoolVar(&f.Restartable, "restartable", false, "allow restarts without downtime, by SIGUSR2")
	flags.StringVar(&f.LogFormat, "log-format", f.LogFormat, "`FORMAT` of the log: text or json")
	flags.BoolVarP(&f.Quiet, "quiet", "q", false, "log failures only")
	completeWords(cmd, "log-format", "text", "json")
}

// config returns the configuration of a command line. given reports whether that has a
// flag.
func (f *serveFlags) config(dirs []string, given func(flag string) bool) (_ serve.Config, err error) {
	f.Dirs, f.Version = dirs, versionString()
	if err := f.choose(given); err != nil {
		return f.Config, err
	}
	if f.Allow, err = parseNetworks("allow", f.allow); err != nil {
		return f.Config, err
	}
	if f.Deny, err = parseNetworks("deny", f.deny); err != nil {
		return f.Config, err
	}
	for _, parse := range []func() error{f.parseFiles, f.parseTFTP, f.parseSFTP, f.parseHTTP} {
		if err := parse(); err != nil {
			return f.Config, err
		}
	}
	return f.Config, nil
}

// choose decides which protocols are served. given reports whether the command
// line has a flag.
func (f *serveFlags) choose(given func(flag string) bool) error {
	f.TFTP.FallBack = !given("tftp")
	if !given("tftp") && (given("sftp") || given("http") || given("https")) {
		f.TFTP.Listen = nil // even if the address given is empty, as from a variable that is not set
	}
	for _, flag := range tftpOnly {
		if given(flag) && !f.ServesTFTP() {
			return failure.Usage.Errorf("--%s is for TFTP, which is not served; add --tftp :69", flag)
		}
	}
	for _, flag := range fileRules {
		if given(flag) && !f.ServesAnybody() && (flag != "upload" || !f.ServesSFTP()) {
			return failure.Usage.Errorf("--%s is for TFTP, and for HTTP without --http-auth, neither of which is served; add --tftp :69 or --http :80", flag)
		}
	}
	if given("max-upload") && !f.ServesTFTP() && !f.ServesHTTP() {
		return failure.Usage.Errorf("--max-upload is for TFTP and HTTP, neither of which is served; add --tftp :69 or --http :80")
	}
	for _, flag := range httpOnly {
		if given(flag) && !f.ServesHTTP() {
			return failure.Usage.Errorf("--%s is for HTTP, which is not served; add --http :80 or --https :443", flag)
		}
	}
	for _, flag := range sftpOnly {
		if given(flag) && !f.ServesSFTP() {
			return failure.Usage.Errorf("--%s is for SFTP, which is not served; add --sftp :2022", flag)
		}
	}
	return nil
}

// parseNetworks reads the addresses and networks that a flag gives.
func parseNetworks(flag string, words []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, w := range words {
		m, err := site.ParseMatch(w)
		if err != nil || len(m.Nets) == 0 || len(m.MACs)+len(m.Listeners) > 0 {
			return nil, failure.Usage.Errorf("--%s %s: it is an address or a network, such as 192.0.2.0/24 or 2001:db8::/32", flag, w)
		}
		all = append(all, m.Nets...)
	}
	return all, nil
}
