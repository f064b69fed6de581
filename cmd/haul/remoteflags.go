package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/haul-project/haul/cmd/haul/internal/cli/commandline"
	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
	"github.com/haul-project/haul/cmd/haul/internal/system/subprocess"
	"github.com/haul-project/haul/sftp/sftpclient"
)

// loginFlags holds the flags that SFTP and HTTP share. They say whether haul may ask the user, and
// where the password is.
type loginFlags struct {
	batch        bool
	passwordFile string

	say func(text string) // prints the messages of servers; nil means that they go to standard error
}

func (f *loginFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.batch, "batch", false, "never ask for anything")
	flags.StringVar(&f.passwordFile, "password-file", "", "log in with the password in the first line of `FILE`")
}

// sshFlags are the flags for SSH, named as in scp and sftp.
type sshFlags struct {
	loginFlags
	identities []string
	jump       string
	port       int
	config     string
	options    []string
	command    commandFlag

	// These fields are only for get and put; 0 means automatic.
	requests    int
	requestSize console.ByteSize

	flags *pflag.FlagSet
}

func (f *sshFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.flags = flags
	flags.StringArrayVarP(&f.identities, "identity", "i", nil, "log in with the private key in `FILE`; repeat for more")
	flags.StringVarP(&f.jump, "jump", "J", "", "connect through `[USER@]HOST[:PORT]`; several are separated by commas")
	flags.IntVarP(&f.port, "port", "P", 0, "connect to this `PORT`, unless a URL has one")
	flags.StringVarP(&f.config, "ssh-config", "F", "", "read this `FILE` instead of ~/.ssh/config; none for no file")
	flags.StringArrayVarP(&f.options, "option", "o", nil, "set an option of ssh_config, as `KEY=VALUE`; repeat for more")
	flags.Var(&f.command, "ssh", "log in by running ssh, or `COMMAND`, with the options of ssh")
	flags.Lookup("ssh").NoOptDefVal = "ssh"
	f.loginFlags.add(cmd)
}

// addRequests adds the flags of get and put that limit the number and the size of SFTP requests.
// They have the same letters as in sftp(1).
func (f *sshFlags) addRequests(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVarP(&f.requests, "requests", "R", 0, fmt.Sprintf("have at most `N` requests in flight, 1 to %d, over one connection (default: what the path holds)", sftpclient.MaxRequests))
	flags.VarP(&f.requestSize, "request-size", "B", fmt.Sprintf("most bytes of a request, up to %s (default: what the server allows)", console.FormatSize(sftpclient.MaxRequestBytes)))
}

// check returns an error for wrong values of the flags. Call it before connecting to a server.
func (f *sshFlags) check() error {
	if f.port < 0 || f.port > 65535 || f.port == 0 && f.flags.Changed("port") {
		return failure.Usage.Errorf("--port %d: choose 1 to 65535", f.port)
	}
	if len(f.command) > 0 && f.passwordFile != "" {
		return failure.Usage.Errorf("--password-file and --ssh: ssh asks for a password itself, and reads no file; use a key, an agent, or a program named by SSH_ASKPASS")
	}
	for _, o := range f.options {
		if !strings.ContainsAny(o, "= \t") {
			return failure.Usage.Errorf("-o %s: it takes a setting of ssh_config, KEY=VALUE, and no output file: that is the last argument of haul get", console.Visible(o))
		}
	}
	if f.requests < 0 || f.requests > sftpclient.MaxRequests || f.requests == 0 && f.flags.Changed("requests") {
		return failure.Usage.Errorf("--requests %d: choose 1 to %d", f.requests, sftpclient.MaxRequests)
	}
	if f.requestSize > sftpclient.MaxRequestBytes || f.requestSize == 0 && f.flags.Changed("request-size") {
		return failure.Usage.Errorf("--request-size %s: choose 1 to %s", f.requestSize.String(), console.FormatSize(sftpclient.MaxRequestBytes))
	}
	return nil
}

// commandFlag is the value of --ssh: the words of a command, or nothing if haul speaks SSH itself.
type commandFlag []string

// Set splits the command into words.
func (c *commandFlag) Set(s string) error {
	words, err := subprocess.Split(s)
	if err == nil && (len(words) == 0 || words[0] == "") {
		err = errors.New("it takes a command, such as --ssh='ssh -v'; --ssh alone runs ssh")
	}
	*c = words
	return err
}

// String returns the words.
func (c *commandFlag) String() string { return strings.Join(*c, " ") }

// Type returns the kind of value, for help texts.
func (c *commandFlag) Type() string { return "COMMAND" }

// webFlags holds the flags that say which certificate of a web server to trust.
type webFlags struct {
	cacert      string
	fingerprint string
	insecure    bool
}

func (f *webFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Var((*filledFlag)(&f.cacert), "cacert", "trust the certificates in `FILE` (PEM), and not those of the system")
	flags.Var((*filledFlag)(&f.fingerprint), "fingerprint", "trust the server whose certificate has this `SHA256`, which \"haul serve --https\" prints, and no other")
	flags.BoolVar(&f.insecure, "insecure", false, "do not check the server's certificate: anybody may be the server")
}

// loginGroup and webGroup are the names of the groups of flags that apply to two of the protocols:
// to SFTP and HTTP, and to HTTP and S3.
var loginGroup, webGroup = commandline.GroupName([]string{"SFTP", "HTTP"}), commandline.GroupName([]string{"HTTP", "S3"})

// addServers adds the flags for connections to SFTP, HTTP and S3 servers.
func addServers(cmd *cobra.Command, ssh *sshFlags, web *webFlags) {
	commandline.AddGroup(cmd, ssh.add, "SFTP")
	commandline.AddGroup(cmd, web.add, "HTTP", "S3")
	commandline.Group(cmd, "batch", remote.WithTrees()...)
	commandline.Group(cmd, "password-file", "SFTP", "HTTP")
}

// sshConfig replaces ~/.ssh/config if --ssh-config is not set. Tests set it, because ~ is the home
// directory in the user database, whatever $HOME says.
var sshConfig string

// remoteConfig returns the configuration for connections to servers. Messages of servers are
// printed on stderr.
func remoteConfig(f *sshFlags, w *webFlags, stderr io.Writer) remote.Config {
	c := remote.Config{
		SSH: remote.SSHConfig{
			Identities: f.identities, Jump: f.jump, Port: f.port, ConfigFile: cmp.Or(f.config, sshConfig), Options: f.options, Command: f.command,
			Requests: f.requests, RequestBytes: int(f.requestSize),
		},
		Web:   remote.WebConfig{CACert: w.cacert, Fingerprint: w.fingerprint, Insecure: w.insecure},
		Batch: f.batch, PasswordFile: f.passwordFile,
		UserAgent: "haul/" + versionString(),
		Stderr:    stderr,
		Say:       func(text string) { fmt.Fprintln(stderr, "haul:", text) },
	}
	if f.say != nil {
		c.Say = f.say
	}
	return c
}

// onlyFlagsOf returns an error if the user has set flags that do not apply to the protocol.
func onlyFlagsOf(p remote.Protocol, cmd *cobra.Command) error {
	var wrong []string
	other, option := "", false
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if of := commandline.Groups(f); len(of) > 0 && !slices.Contains(of, p.String()) {
			option = option || f.Name == "option"
			wrong = append(wrong, "--"+f.Name)
			other = commandline.GroupName(of)
		}
	})
	if len(wrong) == 0 {
		return nil
	}
	if option && len(wrong) == 1 && cmd.Name() == "get" {
		return failure.Usage.Errorf("-o: a setting of SSH, which %s does not have; the file to write is the last argument: haul get SOURCE FILE", p)
	}
	return failure.Usage.Errorf("%s: a flag of %s, not of %s", strings.Join(wrong, ", "), other, p)
}
