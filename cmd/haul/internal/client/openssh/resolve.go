package openssh

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
)

// Resolve finds out how to reach target, which has the form that [ParseTarget] reads. As ssh does,
// it reads the overrides, the user's ssh_config and the system's. It runs the commands of Match
// exec, and looks up names if CanonicalizeHostname is set. The context limits how long the commands
// and the lookups take. Errors wrap [ErrConfig], or come from the context.
//
// As in ssh, an unknown setting or Match criterion is an error. A known setting that has no meaning
// in haul is ignored.
func Resolve(ctx context.Context, target string, o Overrides) (Destination, error) {
	d, err := resolve(ctx, thisSystem(o.Account), target, o, nil)
	if err != nil {
		if ctx.Err() != nil {
			return Destination{}, fmt.Errorf("resolve %s: %w", printable(target), context.Cause(ctx))
		}
		return Destination{}, err
	}
	return *d, nil
}

// resolve does the same as Resolve for one host in a chain of jump hosts. `through` lists the
// hosts, as user@host, that are reached through this one.
func resolve(ctx context.Context, sys *system, target string, o Overrides, through []string) (*Destination, error) {
	t, err := ParseTarget(target)
	if err != nil {
		return nil, err
	}
	r := &reader{ctx: ctx, sys: sys, o: o, host: t.Host, original: t.Host, values: map[string][]string{}}
	if err := r.commandLine(t); err != nil {
		return nil, err
	}
	if err := r.readAll(); err != nil {
		return nil, err
	}
	host, err := r.hostName()
	if err != nil {
		return nil, configErrorf("hostname: %w", err)
	}
	host, canonical, err := r.canonical(host)
	if err != nil {
		return nil, err
	}
	if canonical || r.wantFinal {
		// Read the configuration again, for Host patterns that match the final name.
		host = strings.ToLower(host)
		r.final, r.host, r.values["hostname"] = true, host, []string{host}
		if err := r.readAll(); err != nil {
			return nil, err
		}
	}
	return r.destination(t, host, through)
}

// commandLine applies the target and the overrides, which take precedence over all files.
func (r *reader) commandLine(t Target) error {
	set := func(name, value string) {
		if _, ok := r.values[name]; !ok && value != "" {
			r.values[name] = []string{value}
		}
	}
	set("user", t.User)
	for _, p := range []int{t.Port, r.o.Port} {
		if p != 0 {
			set("port", fmt.Sprint(p))
		}
	}
	for _, f := range r.o.Identities {
		if err := r.add("identityfile", f); err != nil {
			return configErrorf("%w", err)
		}
	}
	if r.o.Jump != "" {
		if err := r.setJump([]string{r.o.Jump}, true); err != nil {
			return configErrorf("%w", err)
		}
	}
	for _, line := range r.o.Options {
		switch keyword, _ := splitLine(line); keyword {
		case "host", "match", "include":
			return configErrorf("option %q: it may only be in a file", printable(line))
		}
		active := true
		if err := r.readLine(line, place{user: true, used: true}, &active, 0); err != nil {
			return configErrorf("option %q: %w", printable(line), err)
		}
	}
	return nil
}

// first returns the first argument of the setting called `name`. If the setting is not set, it
// returns `otherwise`.
func (r *reader) first(name, otherwise string) string {
	if v := r.values[name]; v != nil {
		return v[0]
	}
	return otherwise
}

func (r *reader) flag(name string, otherwise bool) bool {
	if v := r.values[name]; v != nil {
		return isYes(v[0])
	}
	return otherwise
}

func (r *reader) number(name string) int {
	n, _ := parseNumber(r.first(name, "0"))
	return n
}

func (r *reader) time(name string) time.Duration {
	t, _ := parseTime(r.first(name, "none"))
	return t
}

// destination builds a Destination from the settings.
func (r *reader) destination(t Target, host string, through []string) (*Destination, error) {
	d := &Destination{
		Alias:   t.Host,
		User:    r.first("user", r.sys.user),
		Host:    strings.ToLower(host),
		Ignored: r.ignored,
		HostKeyRules: HostKeyRules{
			Policy:          policy(r.first("stricthostkeychecking", "ask")),
			HostKeyAlias:    strings.ToLower(r.first("hostkeyalias", "")),
			HashKnownHosts:  r.flag("hashknownhosts", false),
			TrustLoopback:   r.flag("nohostauthenticationforlocalhost", false),
			RequiredRSASize: r.number("requiredrsasize"),
		},
		LoginRules: LoginRules{
			IdentitiesOnly:          r.flag("identitiesonly", false),
			NumberOfPasswordPrompts: r.number("numberofpasswordprompts"),
			BatchMode:               r.flag("batchmode", false),
			AuthMethods:             r.methods(),
			NoBanner:                slices.Contains([]string{"QUIET", "FATAL", "ERROR"}, strings.ToUpper(r.first("loglevel", "INFO"))),
		},
		Network: Network{
			AddressFamily:       map[string]string{"inet": "tcp4", "inet6": "tcp6"}[strings.ToLower(r.first("addressfamily", "any"))],
			BindAddress:         r.first("bindaddress", ""),
			BindInterface:       r.first("bindinterface", ""),
			ConnectTimeout:      r.time("connecttimeout"),
			ConnectionAttempts:  r.number("connectionattempts"),
			NoTCPKeepAlive:      !r.flag("tcpkeepalive", true),
			ServerAliveInterval: r.time("serveraliveinterval"),
			ServerAliveCountMax: r.number("serveralivecountmax"),
		},
	}
	d.Port, _ = parsePort(r.first("port", fmt.Sprint(defaultPort)))
	if r.first("numberofpasswordprompts", "") == "0" {
		d.NumberOfPasswordPrompts = -1
	}
	d.RekeyLimit, _ = parseBytes(r.first("rekeylimit", "default"))
	if reason := r.first("refuseconnection", ""); reason != "" {
		return nil, configErrorf("the configuration refuses %s: %s", t.Host, reason)
	}
	if err := r.setAlgorithms(d); err != nil {
		return nil, err
	}
	jump := strings.Join(r.jump, ",")
	if jump == "none" {
		jump = ""
	}
	if err := r.setFiles(d, jump); err != nil {
		return nil, err
	}
	return d, r.setRoute(d, jump, through)
}

// policy returns the Policy for a value of StrictHostKeyChecking.
func policy(s string) Policy {
	switch strings.ToLower(s) {
	case "yes", "true":
		return Strict
	case "no", "false", "off":
		return Accept
	case "accept-new":
		return AcceptNew
	}
	return Ask
}

// allMethods are the login methods, in ssh's order of preference.
var allMethods = []string{"publickey", "keyboard-interactive", "password"}

// methods returns the login methods that are enabled, in the configured order.
func (r *reader) methods() []string {
	return slices.DeleteFunc(strings.Split(r.first("preferredauthentications", strings.Join(allMethods, ",")), ","), func(m string) bool {
		switch m {
		case "publickey":
			v := strings.ToLower(r.first("pubkeyauthentication", "yes"))
			return v == "no" || v == "false"
		case "keyboard-interactive":
			return !r.flag("kbdinteractiveauthentication", true)
		case "password":
			return !r.flag("passwordauthentication", true)
		}
		return true // haul does not support this method
	})
}

func (r *reader) setAlgorithms(d *Destination) error {
	for _, list := range []struct {
		name               string
		to                 *[]string
		defaults, universe []string
	}{
		{"kexalgorithms", &d.KexAlgorithms, defaultKeyExchanges, kexUniverse},
		{"ciphers", &d.Ciphers, defaultCiphers, cipherUniverse},
		{"macs", &d.MACs, defaultMACs, macUniverse},
		{"hostkeyalgorithms", &d.HostKeyAlgorithms, defaultHostKeyAlgorithms, hostKeyUniverse},
		{"casignaturealgorithms", &d.CASignatureAlgorithms, defaultSignatures, publicKeyUniverse},
		{"pubkeyacceptedalgorithms", &d.PubkeyAlgorithms, defaultPublicKeyAlgorithms, publicKeyUniverse},
	} {
		*list.to = assemble(r.first(list.name, ""), list.defaults, list.universe)
		if len(*list.to) == 0 {
			return configErrorf("%s %s leaves nothing", list.name, r.first(list.name, ""))
		}
	}
	list := r.first("hostkeyalgorithms", "+")
	d.FixedHostKeyOrder = list[0] != '+' && list[0] != '-'
	return nil
}

// setFiles sets the paths of all files and sockets of a destination. It expands ~, tokens and
// environment variables in them.
func (r *reader) setFiles(d *Destination, jump string) error {
	t := r.sys.connection(d, jump)
	for _, f := range []struct {
		name     string
		to       *[]string
		defaults []string
	}{
		{"userknownhostsfile", &d.UserKnownHostsFiles, []string{"~/.ssh/known_hosts", "~/.ssh/known_hosts2"}},
		{"globalknownhostsfile", &d.GlobalKnownHostsFiles, []string{r.sys.systemDir + "/ssh_known_hosts", r.sys.systemDir + "/ssh_known_hosts2"}},
		{"identityfile", &d.IdentityFiles, defaultIdentities},
		{"certificatefile", &d.CertificateFiles, nil},
	} {
		names := r.values[f.name]
		if names == nil {
			names = f.defaults
		}
		for _, name := range names {
			path, err := r.path(name, t)
			if err != nil {
				return configErrorf("%s: %w", f.name, err)
			}
			if path != "" {
				*f.to = append(*f.to, path)
			}
		}
	}
	d.DefaultIdentities = r.values["identityfile"] == nil
	var err error
	if d.RevokedHostKeys, err = r.path(r.first("revokedhostkeys", "none"), t); err != nil {
		return configErrorf("revokedhostkeys: %w", err)
	}
	if d.IdentityAgent, err = r.agent(t); err != nil {
		return configErrorf("identityagent: %w", err)
	}
	return nil
}

// path expands the name of a file to its path. It returns "" for "none", which means no file.
func (r *reader) path(name string, t tokens) (string, error) {
	if strings.EqualFold(name, "none") {
		return "", nil
	}
	path, err := r.sys.expandHome(name)
	if err != nil {
		return "", err
	}
	return expand(path, t, r.sys.env)
}

// defaultIdentities lists the key files to try if none is configured.
var defaultIdentities = []string{
	"~/.ssh/id_rsa", "~/.ssh/id_ecdsa", "~/.ssh/id_ecdsa_sk", "~/.ssh/id_ed25519", "~/.ssh/id_ed25519_sk",
}

// agent returns the path of the agent's socket, or "" if no agent is used.
func (r *reader) agent(t tokens) (string, error) {
	const variable = "SSH_AUTH_SOCK"
	name := r.first("identityagent", variable)
	if v, ok := strings.CutPrefix(name, "$"); ok && !strings.HasPrefix(v, "{") {
		name, _ = r.sys.env(v)
		return name, nil
	}
	if name == variable {
		name, _ = r.sys.env(variable)
		return name, nil
	}
	return r.path(name, t)
}

// setRoute decides how to reach the host: through a command, through a jump host, or directly.
func (r *reader) setRoute(d *Destination, jump string, through []string) error {
	t := r.sys.connection(d, jump).only("hnpr")
	if jump == "" {
		if r.command == "" || strings.EqualFold(r.command, "none") {
			return nil
		}
		if r.flag("proxyusefdpass", false) {
			return configErrorf("proxyusefdpass: a connection that a ProxyCommand passes on cannot be taken")
		}
		command, err := expandCommand(r.command, t)
		if err != nil {
			return configErrorf("proxycommand: %w", err)
		}
		d.ProxyCommand = command
		return nil
	}
	jump, err := expand(jump, t, nil)
	if err != nil {
		return configErrorf("proxyjump: %w", err)
	}
	if slices.Contains(through, d.login()) {
		return configErrorf("proxyjump: %s is reached through itself", d.login())
	}
	if through = append(slices.Clone(through), d.login()); len(through) > maxJumps {
		return configErrorf("proxyjump: %s goes through more than %d hosts", through[0], maxJumps)
	}
	// This machine connects to the destination by the last host of the chain, which in turn is
	// reached by the hosts before it. The first host is reached as its own configuration says.
	before, last := "", jump
	if comma := strings.LastIndexByte(jump, ','); comma >= 0 {
		before, last = jump[:comma], jump[comma+1:]
	}
	next := Overrides{File: r.o.File, NoExec: r.o.NoExec, Account: r.o.Account, Jump: before}
	d.Jump, err = resolve(r.ctx, r.sys, last, next, through)
	return err
}

// canonical returns the full name of a host, and true, if CanonicalizeHostname is set and the name
// could be completed. As by default in ssh, CNAMEs are not followed.
func (r *reader) canonical(host string) (string, bool, error) {
	switch strings.ToLower(r.first("canonicalizehostname", "no")) {
	case "no", "false":
		return host, false, nil
	case "yes", "true":
		if proxied := r.command != "" || r.jump != nil; proxied {
			return host, true, nil
		}
	}
	maxDots := 1
	if r.values["canonicalizemaxdots"] != nil {
		maxDots = r.number("canonicalizemaxdots")
	}
	host = strings.ToLower(host)
	// A name that ends in a dot is already complete, and an address cannot be completed.
	if whole, ok := strings.CutSuffix(host, "."); ok {
		return whole, true, nil
	}
	if net.ParseIP(host) != nil || strings.Count(host, ".") > maxDots {
		return host, true, nil
	}
	for _, domain := range r.values["canonicaldomains"] {
		if name := host + "." + strings.TrimPrefix(domain, "."); r.sys.lookup(r, name+".") {
			return name, true, nil
		}
	}
	if !r.flag("canonicalizefallbacklocal", true) {
		return "", false, configErrorf("canonicalizehostname: %s is in none of the domains", host)
	}
	return host, true, nil
}
