package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// refuse runs a command line that must be refused before anything begins. Otherwise the server ends
// at once, since its context has ended.
func refuse(t *testing.T, args ...string) (code int, message string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out lockedBuffer
	cmd := newRoot()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.ExecuteContext(ctx)
	if out.String() != "" {
		t.Errorf("haul %q begins: %s", args, out.String())
	}
	if err == nil {
		return 0, ""
	}
	return exitCode(err), err.Error()
}

// badValues are values that a flag of "haul serve" refuses, with a part of the message.
var badValues = []struct {
	flag, value, says string
}{
	{"dry-run", "x", "true or false"},
	{"boot", "x", "true or false"},
	{"interface", "eth0", "is for boot clients"},
	{"boot-file", "x64", "x64=shimx64.efi"},
	{"boot-file", "vax=x", "these are known: bios, ia32, x64"},
	{"boot-host", "52:54:00:12:34:56", "MAC=ignore"},
	{"boot-host", "52:54:00:12:34=ignore", "too short"},
	{"boot-host", "host=ignore", "not a MAC"},
	{"boot-host", "52:54:00:12:34:56=a,52:54:00:12:34:56=b", "two rules"},
	{"boot-host", "52:54:00:12:34:56=direct,52:54:00:12:34:56=redirect", "two rules"},
	{"boot-host", "52:54:00:12:34:56=a,52:54:00:12:34:56=ignore", "two rules"},
	{"boot-host", "52:54:00:12:34:56=ignore", "goes with"},
	{"boot-known", "x", "true or false"},
	{"boot-known", "true", "goes with"},
	{"boot-relay", "x", "192.0.2.0/24"},
	{"boot-address", "x", "IP address"},
	{"boot-default", "debian", "goes with"},
	{"boot-timeout", "x", "300ms"},
	{"refuse", "multicast", "the options are blksize"},
	{"refuse", "tsize 10.0.0.0/33", "write it like 10.0.0.0/8"},
	{"rollover", "2", "it is 0 or 1"},
	{"tftp", "", "nothing to serve"},
	{"tftp", "69", "HOST:PORT"},
	{"tftp", "192.0.2.1", "HOST:PORT"},
	{"tftp", "127.0.0.1:65536", "HOST:PORT"},
	{"tftp", "127.0.0.1:x", "HOST:PORT"},
	{"tftp", "127.0.0.1:0,", "HOST:PORT"},
	{"http", "80", "HOST:PORT"},
	{"http", "127.0.0.1:65536", "HOST:PORT"},
	{"https", "443", "HOST:PORT"},
	{"https", "127.0.0.1:65536", "HOST:PORT"},
	{"cert", "x", "add --https"},
	{"key", "x", "--cert"},
	{"listing", "x", "true or false"},
	{"index", "x", "add --http"},
	{"http-auth", "x", "add --http"},
	{"http-plain-auth", "x", "true or false"},
	{"http-host", "x", "which is not served"},
	{"http-exempt", "x", "192.0.2.0/24"},
	{"http-proxy", "x", "192.0.2.0/24"},
	{"restartable", "x", "true or false"},
	{"sftp", "22", "HOST:PORT"},
	{"sftp", "127.0.0.1:65536", "HOST:PORT"},
	{"sftp", "127.0.0.1:0,", "HOST:PORT"},
	{"tftp-bandwidth", "1023", "1KiB"},
	{"tftp-bandwidth-per-client", "x", "not a size"},
	{"sftp-rate", "x", "not a size"},
	{"sftp-rate", "-1", "not a size"},
	{"http-rate", "x", "not a size"},
	{"http-rate", "1M", "add --http"},
	{"http-rate-per-source", "x", "not a size"},
	{"sftp-proxy", "x", "192.0.2.0/24"},
	{"tcp-congestion", "cubic", "which are not served"},
	{"sftp-conns", "0", "1 to 65536"},
	{"sftp-conns", "65537", "1 to 65536"},
	{"http-conns-per-source", "7", "add --http"},
	{"sftp-conns-per-source", "0", "1 to 65536"},
	{"sftp-conns-per-source", "65537", "1 to 65536"},
	{"sftp-in-place", "x", "true or false"},
	{"sftp-special-bits", "x", "true or false"},
	{"sftp-exempt", "x", "192.0.2.0/24"},
	{"sftp-exempt", "192.0.2.1/24", "192.0.2.0/24"},
	{"single-port", "x", "true or false"},
	{"ports", "0-5", "FIRST-LAST"},
	{"ports", "9-5", "from 1 to 65535"},
	{"ports", "5-65536", "from 1 to 65535"},
	{"ports", "1-2-3", "FIRST-LAST"},
	{"ports", "-", "FIRST-LAST"},
	{"mtu", "67", "68 to 65535"},
	{"windowsize", "0", "1 to 65535"},
	{"max-transfers", "999999999999", "1048576"},
	{"memory", "9999999999999999", "1TiB"},
	{"mtu", "65536", "auto, none"},
	{"mtu", "", "auto, none"},
	{"root", "dir", "CLIENT=DIR"},
	{"root", "*=ftp://host/dir", "https://HOST/DIR/"},
	{"cache", "/var/cache/haul", "sources on other machines"},
	{"redirect-to", "cdn.example", "sources such as https"},
	{"cache-size", "20GB", "goes with"},
	{"cache-size", "x", "not a size"},
	{"cache-fresh", "-1s", "below 0"},
	{"cache-stale", "1h", "goes with"},
	{"root", "=.", "for everybody write *"},
	{"root", "10.0.0.0/33=.", "10.0.0.0/8"},
	{"root", "10.0.0.1/8=.", "write 10.0.0.0/8"},
	{"root", "52:54:00:12:34=.", "52:54:00:12:34:56"},
	{"root", "on=x=.", "on=192.0.2.1"},
	{"root", "on=:0=.", "1 to 65535"},
	{"root", "on=0.0.0.0=.", "on=:PORT"},
	{"root", "fe80::1%eth0=.", "leave out %eth0"},
	{"root", "*,10.0.0.0/8=.", "stands alone"},
	{"per-client", "name", "ip, mac"},
	{"shared", "x", "true or false"},
	{"precompressed", "x", "true or false"},
	{"fold-case", "x", "true or false"},
	{"hidden", "x", "true or false"},
	{"access", "", "allow"},
	{"access", "deny read", "2 words"},
	{"access", "deny read * a b", "5 words"},
	{"access", "permit read *", `"allow" or "deny"`},
	{"access", "deny list *", `"read", "write" or "all"`},
	{"access", "deny read host.example", "192.0.2.7"},
	{"access", "deny read * [a", "[ without ]"},
	{"access", "deny read * a//b", "matches nothing"},
	{"allow", "x", "192.0.2.0/24"},
	{"allow", "192.0.2.1/24", "192.0.2.0/24"},
	{"allow", "52:54:00:12:34:56", "an address or a network"},
	{"deny", "on=:69", "an address or a network"},
	{"deny", "*", "an address or a network"},
	{"upload", "all", "create, overwrite or unique"},
	{"upload", "none", "create, overwrite or unique"},
	{"upload-dir", ".", "without --upload"},
	{"no-fsync", "x", "true or false"},
	{"no-fsync", "true", "without --upload"},
	{"upload-parents", "true", "without --upload"},
	{"max-upload", "0", "above 0"},
	{"max-upload", "1GX", "haul help sizes"},
	{"max-upload", "-1", "haul help sizes"},
	{"max-transfers", "0", "1 to"},
	{"max-per-client", "-1", "below 0"},
	{"rate", "-2", "-1 for no limit"},
	{"memory", "1048575", "1MiB"},
	{"memory", "1048575B", "1MiB"},
	{"memory", "1.5M", "haul help sizes"},
	{"blksize", "7", "8 to 65464"},
	{"blksize", "65465", "8 to 65464"},
	{"loops", "-1", "0 to 1024"},
	{"loops", "1025", "0 to 1024"},
	{"windowsize", "-1", "1 to 65535"},
	{"windowsize", "65536", "1 to 65535"},
	{"grace", "0s", "above 0"},
	{"grace", "10", "with its unit"},
	{"metrics", "x", "HOST:PORT"},
	{"status", "x", "HOST:PORT"},
	{"status", ":9070", "others can reach"},
	{"status-users", "x", "which is not served"},
	{"status-cert", "x", "which is not served"},
	{"status-key", "x", "which is not served"},
	{"status-host", "x", "which is not served"},
	{"status-pprof", "x", "true or false"},
	{"user", "no-such-user", ""},
	{"log-format", "xml", "text or json"},
	{"log-format", "", "text or json"},
	{"audit-hash", "md5", "choose sha256"},
	{"hook", "on=upload run=/bin/true", "there is no event"},
	{"quiet", "x", "true or false"},
	{"no-offload", "x", "true or false"},
	{"trace", "x", "192.0.2.0/24"},
	{"trace", "192.0.2.1/24", "192.0.2.0/24"},
	{"trace-hex", "-1", "0 to"},
	{"trace-hex", "70000", "0 to"},
}

// testedElsewhere are flags whose bad values are files that cannot be read or written, and the flag
// that is checked once the port is open.
var testedElsewhere = map[string]bool{"map": true, "pcap": true, "users": true, "host-keys": true, "config": true, "boot-loaders": true, "audit": true}

func TestServeBadValues(t *testing.T) {
	dir := t.TempDir()
	tested := map[string]bool{}
	for _, b := range badValues {
		tested[b.flag] = true
		args := []string{"serve", dir, "--" + b.flag + "=" + b.value}
		if b.flag != "tftp" {
			args = append(args, "--tftp", "127.0.0.1:0")
		}
		if strings.HasPrefix(b.flag, "sftp-") {
			args = append(args, "--sftp", "127.0.0.1:0", "--host-keys", filepath.Join(t.TempDir(), "keys"))
		}
		code, message := refuse(t, args...)
		if code != exitUsage || !strings.Contains(message, "--"+b.flag) || !strings.Contains(message, b.says) {
			t.Errorf("--%s=%s: exit code %d, %q; want %d, and %q", b.flag, b.value, code, message, exitUsage, b.says)
		}
	}
	newServe().Flags().VisitAll(func(f *pflag.Flag) {
		if !tested[f.Name] && !testedElsewhere[f.Name] {
			t.Errorf("no bad value of --%s is tested", f.Name)
		}
	})
}
