package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/haul-project/haul/cmd/haul/internal/cli/commandline"
	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/users"
)

const userAddHelp = `Add a user to the users file. Haul creates the file if it does not exist.

Without --key and without a flag about a password, haul asks for a password. A --key
is a file of public keys, such as id_ed25519.pub or authorized_keys, the line of such
a file itself, or - for standard input. The options of such lines apply: from=,
expiry-time=, command="internal-sftp -R", cert-authority and others.

--root is the directory that the user sees as /: below the DIR that is served, where
haul makes it at the first login, or an absolute path, which must exist when the
server starts. In it %u is the user's name. Without --root the user has all of DIR.

--access upload-only is a drop box: users may add files, and nothing that is there is
read, listed or changed. As long as they are connected, they may rename, change or
remove the files that they have uploaded.`

const userAddExamples = `  haul user add alice                          asks for a password
  haul user add alice --key ~/.ssh/id_ed25519.pub --root alice
  haul user add backup --key 'from="10.0.0.0/8" ssh-ed25519 AAAA... backup' --limit 20M
  pwgen -s 24 1 | haul user add scanner --password-stdin --access upload-only --from 192.0.2.0/24`

// completeAccess sets the words with which the shell completes the value of --access.
func completeAccess(cmd *cobra.Command) {
	commandline.CompleteWords(cmd, "access", users.Full.String(), users.ReadOnly.String(), users.UploadOnly.String())
}

// addFlags are the flags of "haul user add".
type addFlags struct {
	file          usersFlag
	password      passwordFlags
	keys, from    []string
	root, access  string
	limit         console.ByteSize
	needsPassword bool
}

func newUserAdd() *cobra.Command {
	var f addFlags
	cmd := &cobra.Command{
		Use:         "add NAME",
		Short:       "Add a user",
		Long:        userAddHelp,
		Example:     userAddExamples,
		Args:        commandline.Args(cobra.ExactArgs(1)),
		Annotations: commandline.More("", "users-file", "sizes"),
		RunE:        func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	f.file.add(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&f.password.ask, "password", false, "ask for a password, in addition to --key")
	flags.BoolVar(&f.password.stdin, "password-stdin", false, "read the password from standard input")
	flags.StringArrayVar(&f.keys, "key", nil, "add this public `KEY`: a file, a line of one, or - for standard input; repeat for more")
	flags.StringVar(&f.root, "root", "", "show the user this `DIR` as /")
	flags.StringVar(&f.access, "access", users.Full.String(), "let the user do this: `ACCESS` is full, read-only or upload-only")
	flags.Var(&f.limit, "limit", "bytes a second each way, such as 20MB (0: no limit)")
	flags.StringSliceVar(&f.from, "from", nil, "let the user log in from this `NETWORK` only; several are separated by commas (default: anywhere)")
	completeAccess(cmd)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return cmd
}

func (f *addFlags) run(cmd *cobra.Command, name string) error {
	u, err := f.user(cmd.InOrStdin(), name)
	if err != nil {
		return err
	}
	path, err := f.file.path()
	if err != nil {
		return err
	}
	if err := checkNew(path, name); err != nil { // check this before anybody has to type a password
		return err
	}
	if f.needsPassword {
		if u.Password, err = f.password.read(cmd, name); err != nil {
			return err
		}
	}
	if f.file.name == "" {
		if err := makeUsersDir(path); err != nil {
			return err
		}
	}
	if err := users.Add(cmd.Context(), path, u); err != nil {
		return explainUsers(err, path)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "added %s to %s (%s, %s)\n", name, path, loginMethods(u), u.Access)
	if filepath.IsAbs(u.Root) && !strings.Contains(u.Root, "%") {
		if _, err := os.Stat(u.Root); errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(cmd.ErrOrStderr(), "haul: %s does not exist yet; make it, and restart the server, before %s logs in\n", u.Root, name)
		}
	}
	return nil
}

// checkNew returns an error if a user of this name exists already. It returns nil if the users file
// cannot be read.
func checkNew(path, name string) error {
	d, err := users.Open(path)
	if err != nil {
		return nil // users.Add will report the error
	}
	if _, ok := d.User(name); ok {
		return fmt.Errorf("user %s is in %s already; \"haul user set\", \"key\" and \"password\" change it", name, path)
	}
	return nil
}

// user returns a user with the values of the flags, but without a password.
func (f *addFlags) user(in io.Reader, name string) (users.User, error) {
	u := users.User{Name: name, Root: f.root, Limit: int64(f.limit)}
	if err := users.CheckName(name); err != nil {
		return u, failure.Usage.Wrap(err)
	}
	var err error
	if u.Access, err = users.ParseAccess(f.access); err != nil {
		return u, failure.Usage.Errorf("--%w", err) // the error begins with the flag's name
	}
	if u.From, err = parseNetworks("from", f.from); err != nil {
		return u, err
	}
	usesStdin := 0
	for _, word := range f.keys {
		if word == "-" {
			usesStdin++
		}
	}
	f.needsPassword = f.password.ask || f.password.stdin || len(f.keys) == 0
	switch {
	case f.password.ask && f.password.stdin:
		return u, failure.Usage.Errorf("--password and --password-stdin exclude each other: the first asks, the second reads")
	case usesStdin > 1 || usesStdin == 1 && f.password.stdin:
		return u, failure.Usage.Errorf("standard input can be read once: give other keys by file, or the password by --password")
	case usesStdin == 1 && f.password.ask:
		return u, failure.Usage.Errorf("--key - takes standard input, and --password asks there; give the key by file")
	}
	for _, word := range f.keys {
		keys, err := readKeys(in, word)
		if err != nil {
			return u, err
		}
		u.Keys = append(u.Keys, keys...)
	}
	// users.Add makes the same checks, but it is called only after somebody has typed the password.
	if _, err := users.New(u); err != nil {
		return u, failure.Usage.Wrap(err)
	}
	return u, nil
}

const userSetHelp = `Change what a user may do.

All else stays as it is, comments included. An empty value removes the statement, so
that the default of the file applies: --root "", --limit 0.

A running server applies the change within seconds. It disconnects a session with
another root or access, or that a new network or requirement excludes.`

const userSetExamples = `  haul user set alice --access read-only --limit 20M
  haul user set backup --from 192.0.2.0/24,2001:db8::/32
  haul user set alice --require key+password
  haul user set alice --root ""                all of DIR from now on`

func newUserSet() *cobra.Command {
	var file usersFlag
	var root, access, require string
	var limit console.ByteSize
	var from []string
	cmd := &cobra.Command{
		Use:         "set NAME",
		Short:       "Change what a user may do",
		Long:        userSetHelp,
		Example:     userSetExamples,
		Args:        commandline.Args(cobra.ExactArgs(1)),
		Annotations: commandline.More("", "users-file", "sizes"),
	}
	file.change(cmd, func(cmd *cobra.Command, path string, args []string) error {
		nets, err := parseNetworks("from", from)
		if err != nil {
			return err
		}
		rate := ""
		if limit != 0 {
			rate = strconv.FormatInt(int64(limit), 10)
		}
		values := map[string]string{
			"root": root, "access": access, "require": require,
			"limit": rate, "from": strings.Trim(fmt.Sprint(nets), "[]"),
		}
		if _, err := users.ParseAccess(access); err != nil && access != "" {
			return failure.Usage.Errorf("--%w", err)
		}
		if _, err := users.ParseRequire(require); err != nil && require != "" {
			return failure.Usage.Errorf("--require: %w", err)
		}
		var settings []users.Setting
		for _, keyword := range []string{"root", "access", "limit", "from", "require"} {
			if cmd.Flags().Changed(keyword) {
				settings = append(settings, users.Setting{Keyword: keyword, Value: values[keyword]})
			}
		}
		if len(settings) == 0 {
			return failure.Usage.Errorf("nothing to change: give --root, --access, --limit, --from or --require")
		}
		if err := users.Set(cmd.Context(), path, args[0], settings...); err != nil {
			return explainUsers(err, path)
		}
		return showUser(cmd.OutOrStdout(), &file, args[0])
	})
	flags := cmd.Flags()
	flags.StringVar(&root, "root", "", "show the user this `DIR` as /")
	flags.StringVar(&access, "access", "", "let the user do this: `ACCESS` is full, read-only or upload-only")
	flags.Var(&limit, "limit", "bytes a second each way, such as 20MB (0: the default of the file)")
	flags.StringSliceVar(&from, "from", nil, "let the user log in from this `NETWORK` only; several are separated by commas")
	flags.StringVar(&require, "require", "", "require this for a login: `HOW` is any or key+password")
	completeAccess(cmd)
	commandline.CompleteWords(cmd, "require", users.AnyMethod.String(), users.KeyAndPassword.String())
	return cmd
}

const userPasswordHelp = `Set the password of a user, or remove it.

haul asks for it twice, and does not show it. --password-stdin reads it from standard
input instead, up to the end of the line. A running server applies the change within
seconds, and ends sessions and HTTP requests that logged in with the old password.`

const userPasswordExamples = `  haul user password alice
  pwgen -s 24 1 | haul user password alice --password-stdin
  haul user password alice --none              keys only from now on`

func newUserPassword() *cobra.Command {
	var file usersFlag
	var p passwordFlags
	var none bool
	cmd := &cobra.Command{
		Use:     "password NAME",
		Short:   "Set a user's password",
		Long:    userPasswordHelp,
		Example: userPasswordExamples,
		Args:    commandline.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			if none && p.stdin {
				return failure.Usage.Errorf("--none and --password-stdin exclude each other")
			}
			d, path, err := file.open()
			if err != nil {
				return err
			}
			if _, ok := d.User(name); !ok {
				return fmt.Errorf("there is no user %q in %s; \"haul user add\" adds one", name, path)
			}
			var h users.Hash
			if !none {
				if h, err = p.read(cmd, name); err != nil {
					return err
				}
			}
			if err := users.SetPassword(cmd.Context(), path, name, h); err != nil {
				return explainUsers(err, path)
			}
			done := "set the password of"
			if none {
				done = "removed the password of"
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s %s in %s\n", done, name, path)
			return nil
		},
		ValidArgsFunction: file.complete,
	}
	file.add(cmd)
	cmd.Flags().BoolVar(&p.stdin, "password-stdin", false, "read the password from standard input")
	cmd.Flags().BoolVar(&none, "none", false, "remove the password")
	return cmd
}

// passwordFlags says where to read a password.
type passwordFlags struct{ ask, stdin bool }

// leastPassword is the minimum length of a password, in bytes. Anybody can try to log in to a
// server, and shorter passwords can be guessed.
const leastPassword = 8

// read reads the password for the user `name`, checks its length, and returns its hash.
func (p *passwordFlags) read(cmd *cobra.Command, name string) (users.Hash, error) {
	password, err := p.get(cmd, name)
	if err != nil {
		return users.Hash{}, err
	}
	defer clear(password)
	switch n := len(password); {
	case n == 0:
		return users.Hash{}, errors.New("the password is empty; nothing was changed")
	case n < leastPassword:
		return users.Hash{}, fmt.Errorf("the password has fewer than %d bytes; nothing was changed", leastPassword)
	case n > users.MaxPassword:
		return users.Hash{}, fmt.Errorf("the password has more than %d bytes; nothing was changed", users.MaxPassword)
	}
	return users.HashPassword(password)
}

func (p *passwordFlags) get(cmd *cobra.Command, name string) ([]byte, error) {
	if p.stdin {
		return readPassword(cmd.InOrStdin())
	}
	in, ok := cmd.InOrStdin().(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return nil, failure.Usage.Errorf("%w; --password-stdin reads it from standard input", console.ErrNoTerminal)
	}
	first, err := console.AskPassword(cmd.Context(), in, cmd.ErrOrStderr(), fmt.Sprintf("Password for %s: ", name))
	if err != nil {
		return nil, failure.Local.Wrap(err)
	}
	second, err := console.AskPassword(cmd.Context(), in, cmd.ErrOrStderr(), "The same again: ")
	if err != nil {
		return nil, failure.Local.Wrap(err)
	}
	defer clear(second)
	if !bytes.Equal(first, second) {
		return nil, errors.New("the two passwords differ; nothing was changed")
	}
	return first, nil
}

// readPassword reads a password, which is the only line of the input. A second line is an error,
// because it is probably a mistake.
func readPassword(in io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(in, users.MaxPassword+3))
	if err != nil {
		return nil, failure.Local.Errorf("password from standard input: %w", err)
	}
	b = bytes.TrimSuffix(b, []byte("\n"))
	b = bytes.TrimSuffix(b, []byte("\r"))
	if bytes.ContainsAny(b, "\r\n") {
		return nil, failure.Usage.Errorf("--password-stdin: there is more than one line")
	}
	return b, nil
}
