package openssh

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/haul-project/haul/internal/repeat"
)

var seed = flag.Uint64("seed", 0, "of the configurations that are compared with ssh -G; 0 draws one")

// sshG returns the settings that ssh reads from a configuration, by keyword.
func sshG(t *testing.T, file string, args ...string) (map[string][]string, error) {
	t.Helper()
	cmd := exec.CommandContext(withTimeout(t), program(t, "ssh"), append([]string{"-G", "-F", file}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	values := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		k, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		values[k] = append(values[k], v)
	}
	return values, nil
}

// ours returns a destination as ssh -G prints it, as far as both must agree.
func ours(d *Destination) map[string][]string {
	yes := func(b bool) []string { return []string{map[bool]string{true: "yes", false: "no"}[b]} }
	number := func(n, zero int) []string {
		if n == 0 {
			n = zero
		}
		return []string{fmt.Sprint(n)}
	}
	m := map[string][]string{
		"user":                    {d.User},
		"hostname":                {d.Host},
		"port":                    number(d.Port, 22),
		"addressfamily":           {map[string]string{"": "any", "tcp4": "inet", "tcp6": "inet6"}[d.AddressFamily]},
		"batchmode":               yes(d.BatchMode),
		"hashknownhosts":          yes(d.HashKnownHosts),
		"identitiesonly":          yes(d.IdentitiesOnly),
		"numberofpasswordprompts": number(max(d.NumberOfPasswordPrompts, 0), 3),
		"connectionattempts":      number(d.ConnectionAttempts, 1),
		"serveralivecountmax":     number(d.ServerAliveCountMax, 3),
		"serveraliveinterval":     {fmt.Sprint(int(d.ServerAliveInterval.Seconds()))},
		"tcpkeepalive":            yes(!d.NoTCPKeepAlive),
		"stricthostkeychecking":   {map[Policy]string{Ask: "ask", Strict: "true", AcceptNew: "accept-new", Accept: "false"}[d.Policy]},
		"userknownhostsfile":      {strings.Join(d.UserKnownHostsFiles, " ")},
		"globalknownhostsfile":    {strings.Join(d.GlobalKnownHostsFiles, " ")},
	}
	optional := func(k, v string) {
		if v != "" {
			m[k] = []string{v}
		}
	}
	optional("hostkeyalias", d.HostKeyAlias)
	optional("bindaddress", d.BindAddress)
	if d.ConnectTimeout > 0 {
		optional("connecttimeout", fmt.Sprint(int(d.ConnectTimeout.Seconds())))
	}
	if !d.DefaultIdentities {
		m["identityfile"] = d.IdentityFiles
	}
	if len(d.CertificateFiles) > 0 {
		m["certificatefile"] = d.CertificateFiles
	}
	optional("proxycommand", d.ProxyCommand)
	return m
}

// sameAsSSH compares how ssh and we read a configuration.
func sameAsSSH(t *testing.T, text, target string) {
	t.Helper()
	file := writeFile(t, "config", text)
	theirs, sshErr := sshG(t, file, target)
	d, err := Resolve(withTimeout(t), target, Overrides{File: file})
	if err != nil && strings.Contains(err.Error(), "is reached through itself") {
		return // ssh would notice that only while connecting
	}
	if (err == nil) != (sshErr == nil) {
		t.Errorf("ssh says %v, and we %v of\n%s", sshErr, err, text)
	}
	if err != nil || sshErr != nil {
		return
	}
	for k, want := range ours(&d) {
		got := theirs[k]
		if k == "serveraliveinterval" && d.BatchMode && want[0] == "0" {
			continue // Debian's ssh sets an interval of its own here
		}
		// ssh -G prints "none" and unexpanded paths.
		if slices.Equal(got, []string{"none"}) {
			got = []string{""}
		}
		if len(want) == 0 {
			want = []string{""}
		}
		if !slices.Equal(want, got) {
			t.Errorf("%s: ssh has %q, and we %q, for %s and\n%s", k, got, want, target, text)
		}
	}
	if jump := theirs["proxyjump"]; (len(jump) > 0) != (d.Jump != nil) {
		t.Errorf("ssh jumps through %q, and we through %s, for\n%s", jump, route(d), text)
	}
}

func TestSameAsSSH(t *testing.T) {
	for _, text := range []string{
		"",
		"Host a\n HostName %h.example.COM\n Port 2222\nHost *\n User bob\n",
		"Host A\n Port 1\nHost a\n Port 2\n",
		"HostName FOO\nMatch host foo\n Port 2\n",
		"Port=22 23\n", "Port = 24\nUser=\"x y\" # c\n", "User x#y # z\n", "User \"x\n", "User x\\ y\n", "User 'x y'\n",
		"ProxyCommand nc # no comment\n", "ProxyCommand \"nc\" -x\nProxyJump b\n", "ProxyCommand=nc x=y\n", "ProxyCommand   =  nc\n",
		"ProxyJump u@b:23,[::1]:24,ssh://c\n", "ProxyJump none\nProxyCommand x\n", "ProxyCommand none\nProxyJump x\n", "ProxyJump b,\n", "ProxyJump b # c\n", "ProxyJump a\n",
		"ConnectTimeout 1m30s\n", "ConnectTimeout none\n", "ConnectTimeout 5x\n", "Port 70000\n", "Port abc\n", "Port 0\n", "StrictHostKeyChecking maybe\n", "StrictHostKeyChecking ACCEPT-NEW\n",
		"UserKnownHostsFile /a\nUserKnownHostsFile /b\n", "UserKnownHostsFile none /a\n", "UserKnownHostsFile none\n", "GlobalKnownHostsFile /x /y\n",
		"Host \"a b\" a\n Port 3\n", "Host\n Port 3\n", "Host !a *\n Port 5\n", "Host * !a\n Port 5\n", "Host !d\n Port 5\n", "Host ?\n Port 5\n",
		"IdentityFile /x\nIdentityFile /y\nIdentityFile /x\n", "CertificateFile /x\nCertificateFile /y\n",
		"Match final\n Port 5\n", "Match canonical\n Port 5\n", "Match all host x\n Port 5\n", "Match host a all\n Port 5\n", "Match !all\n Port 5\nMatch all\n Port 6",
		"Match host=a\n Port 5\n", "Match host=\"a,d\" localuser *\n Port 5\n", "Match exec \"test %h = a\"\n Port 5\n", "Match exec \"exit 1\"\n Port 5\n", "Match host a # comment\n Port 5\n",
		"Match host !d\n Port 5\n", "Match !host d\n Port 5\n", "Match host\n", "Match foo bar\n", "Match user bob\n Port 5\nHost a\nUser bob\n", "Host a\nUser bob\nMatch user bob\n Port 5\n",
		"Foo bar\n", "IgnoreUnknown foo*\nFooBar 1\n", "Protocol 2\n", "UseRoaming yes\n", "  \t Port\t22\nport 9\n", "HostName=\n", "Port \"\"\n", "User \"\"\n", "Include nosuch\nPort 4\n",
		"HostName %n\n", "HostName %%x%h\n", "AddressFamily inet6\nBindAddress ::1\n", "ServerAliveInterval 1h\nServerAliveCountMax 7\n", "BatchMode yes\n", "HostKeyAlias K\n",
		"# comment\n\n \n", "Port 5\r\nUser x\r\n", "\"Port\" 5\n", "Port \"5\"\n", "TCPKeepAlive no\nKeepAlive yes\n", "IdentitiesOnly TRUE\n", "NumberOfPasswordPrompts 1\n",
		"Host a\nMatch final host a\nPort 5\nHost a\nPort 6\n", "Host a\nHostName b\nHost b\nPort 7\nMatch final\nUser x\n",
	} {
		sameAsSSH(t, text, "a")
	}
	file := writeFile(t, "config", "")
	for _, target := range []string{"u@a", "u@v@a", "ssh://u@a:77", "ssh://u@a", "a;b", "u;x@a", "$x@a", "-x", "@a"} {
		_, sshErr := sshG(t, file, "--", target)
		if _, err := Resolve(withTimeout(t), target, Overrides{File: file}); (err == nil) != (sshErr == nil) {
			t.Errorf("%s: ssh says %v, and we %v", target, sshErr, err)
		}
	}
}

// Random configurations mean the same to ssh and to us.
func TestSameAsSSHRandom(t *testing.T) {
	from := *seed
	if from == 0 {
		from = rand.Uint64()
	}
	runs := 150
	if testing.Short() {
		runs = 20
	}
	for i := range uint64(runs) {
		text := randomConfig(rand.New(rand.NewPCG(from+i, 1)))
		sameAsSSH(t, text, []string{"a", "ab", "u@a.b", "u@b"}[i%4])
		if t.Failed() {
			t.Fatalf("repeat it with: %s", repeat.Command(t.Name(), fmt.Sprintf("-seed=%d", from+i)))
		}
	}
}

func randomConfig(r *rand.Rand) string {
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	patterns := func() string {
		var p []string
		for range 1 + r.IntN(3) {
			p = append(p, pick("", "", "!")+pick("a", "b", "a*", "*b", "?", "*", "a.b", "x"))
		}
		return strings.Join(p, pick(" ", "  "))
	}
	var b strings.Builder
	for range r.IntN(14) {
		switch r.IntN(8) {
		case 0:
			fmt.Fprintf(&b, "%s %s\n", pick("Host", "host", "HOST"), patterns())
		case 1:
			b.WriteString("Match")
			for range 1 + r.IntN(2) {
				fmt.Fprintf(&b, " %s%s %s", pick("", "", "!"), pick("host", "originalhost", "user", "localuser"), strings.Join(strings.Fields(patterns()), ","))
			}
			b.WriteString(pick("\n", " all\n", " # x\n"))
		case 2:
			b.WriteString(pick("Match all\n", "Match final\n", "Match canonical\n", "Match exec true\n", "Match exec \"test %r = u\"\n", "Match final all\n"))
		default:
			fmt.Fprintf(&b, "%s%s%s%s\n", pick("", "  ", "\t"), pick(
				"Port 1", "Port 2", "port=3", "User u", "User v", "HostName %h.b", "HostName B", "HostName b", "IdentityFile /i", "IdentityFile /j", "CertificateFile /c",
				"ProxyJump x", "ProxyJump u@y,z", "ProxyJump none", "ProxyCommand cat", "ProxyCommand none", "ConnectTimeout 3", "ServerAliveInterval 1m",
				"StrictHostKeyChecking no", "StrictHostKeyChecking yes", "UserKnownHostsFile /k /l", "HashKnownHosts yes", "HostKeyAlias k", "BatchMode yes", "IdentitiesOnly yes",
				"CanonicalizeHostname no", "AddressFamily inet", "BindAddress ::1", "LogLevel DEBUG", "Compression yes", "NumberOfPasswordPrompts 2", "ConnectionAttempts 4",
			), pick("", "", " "), "")
		}
	}
	return b.String()
}
