package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/internal/smallfile"
	"github.com/haul-project/haul/users"
)

const userAddHelp = `Add a user to the users file, which haul makes if there is none.

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

// completeAccess makes the shell complete --access.
func completeAccess(cmd *cobra.Command) {
	completeWords(cmd, "access", users.Full.String(), users.ReadOnly.String(), users.UploadOnly.String())
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
		Args:        args(cobra.ExactArgs(1)),
		Annotations: more("", "users-file", "sizes"),
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
	if err := checkNew(path, name); err != nil { // before anybody types a password
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
	if err := users.Add(path, u); err != nil {
		return explainUsers(err, path)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "added %s to %s (%s, %s)\n", name, path, describeLogin(u), u.Access)
	if filepath.IsAbs(u.Root) && !strings.Contains(u.Root, "%") {
		if _, err := os.Stat(u.Root); errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(cmd.ErrOrStderr(), "haul: %s does not exist yet; make it, and restart the server, before %s logs in\n", u.Root, name)
		}
	}
	return nil
}

// checkNew refuses a user who exists already, if the users file can be read.
func checkNew(path, name string) error {
	d, err := users.Open(path)
	if err != nil {
		return nil // Add says what is wrong
	}
	if _, ok := d.User(name); ok {
		return fmt.Errorf("user %s is in %s already; \"haul user set\", \"key\" and \"password\" change it", name, path)
	}
	return nil
}

// user makes a user of the flags, but for the password.
func (f *addFlags) user(in io.Reader, name string) (users.User, error) {
	u := users.User{Name: name, Root: f.root, Limit: int64(f.limit)}
	if err := users.CheckName(name); err != nil {
		return u, failure.Usage.Wrap(err)
	}
	var err error
	if u.Access, err = users.ParseAccess(f.access); err != nil {
		return u, failure.Usage.Errorf("--%w", err) // it begins with the flag's name
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
	// The users file checks the rest before it is written; but that would be after a
	// password was typed.
	if _, err := users.New(u); err != nil {
		return u, failure.Usage.Wrap(err)
	}
	return u, nil
}

// maxKeyFile is the most bytes of a file of keys that --key takes.
const maxKeyFile = 1 << 20

// readKeys reads what --key names.
func readKeys(in io.Reader, word string) ([]users.Key, error) {
	source, text := "key "+word, ""
	_, statErr := os.Stat(word)
	switch {
	case word == "":
		return nil, failure.Usage.Errorf("the key is empty; it is a file, a line of one, or -")
	case word == "-":
		b, err := io.ReadAll(io.LimitReader(in, maxKeyFile+1))
		if err == nil && len(b) > maxKeyFile {
			err = fmt.Errorf("more than %d bytes", maxKeyFile)
		}
		if err != nil {
			return nil, failure.Local.Errorf("keys from standard input: %w", err)
		}
		source, text = "standard input", string(b)
	case statErr != nil && looksLikeKey(word):
		source, text = "key", word
	case statErr != nil:
		return nil, failure.Local.Errorf("key %s: %w; it is a file, a line such as \"ssh-ed25519 AAAA...\", or -", word, console.WithoutPath(statErr))
	default:
		b, err := smallfile.Read(word, maxKeyFile)
		if err != nil {
			return nil, failure.Local.Errorf("key %s: %w", word, console.WithoutPath(err))
		}
		text = string(b)
	}
	return parseKeys(source, text)
}

// looksLikeKey reports whether a word is the line of a key, and not the name of a file
// that is missing.
func looksLikeKey(word string) bool { return keyType.MatchString(word) }

var keyType = regexp.MustCompile(`(?:^|\s)(?:ssh|ecdsa|sk-ssh|sk-ecdsa)-[a-z0-9@.-]+\s`)

// parseKeys reads the lines of an authorized_keys file. Each line must be right: the
// user is there to correct it.
func parseKeys(source, text string) (keys []users.Key, err error) {
	if strings.Contains(text, "PRIVATE KEY-----") {
		return nil, failure.Usage.Errorf("%s: that is a private key, which only its owner should have; the public key is in the file with .pub behind its name", source)
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		k, err := users.ParseKey(line)
		if err != nil {
			return nil, failure.Usage.Errorf("%s: %w", source, err)
		}
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return nil, failure.Usage.Errorf("%s: there is no key in it", source)
	}
	return keys, nil
}
