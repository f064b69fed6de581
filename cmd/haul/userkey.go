package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/cmd/haul/internal/cli/commandline"
	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/system/smallfile"
	"github.com/haul-project/haul/users"
)

const userKeyHelp = `Add, remove or list the SSH keys of a user.

A running server applies the change within seconds, and disconnects sessions that
logged in with a removed key.`

const userKeyExamples = `  haul user key add alice ~/.ssh/id_ed25519.pub
  haul user key add backup 'from="10.0.0.0/8" ssh-ed25519 AAAA... backup'
  haul user key list alice
  haul user key remove alice SHA256:Z4Kpq/cX+mLdQWACPHkB7p1+h+Nz8moeRfaMkMUB7p8
  haul user key remove alice alice@laptop      by its comment`

func newUserKey() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "key",
		Short:   "Add, remove or list a user's keys",
		Long:    userKeyHelp,
		Example: userKeyExamples,
		Args:    program.NoCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newUserKeyAdd(), newUserKeyRemove(), newUserKeyList())
	return cmd
}

func newUserKeyAdd() *cobra.Command {
	var file usersFlag
	cmd := &cobra.Command{
		Use:   "add NAME KEY...",
		Short: "Add keys to a user",
		Long: "Add public keys to a user.\n\nA KEY is a file such as id_ed25519.pub or authorized_keys, the line of such a file, or - for\n" +
			"standard input. The options of the line apply.",
		Example: "  haul user key add alice ~/.ssh/id_ed25519.pub",
		Args:    commandline.Args(cobra.MinimumNArgs(2)),
	}
	file.change(cmd, func(cmd *cobra.Command, path string, args []string) error {
		var keys []users.Key
		for _, word := range args[1:] {
			more, err := readKeys(cmd.InOrStdin(), word)
			if err != nil {
				return err
			}
			keys = append(keys, more...)
		}
		if err := users.AddKeys(cmd.Context(), path, args[0], keys...); err != nil {
			return explainUsers(err, path)
		}
		for _, k := range keys {
			fmt.Fprintf(cmd.OutOrStdout(), "added %s to %s\n", describeKey(k), args[0])
		}
		return nil
	})
	return cmd
}

func newUserKeyRemove() *cobra.Command {
	var file usersFlag
	cmd := &cobra.Command{
		Use:     "remove NAME KEY...",
		Short:   "Remove keys from a user",
		Long:    "Remove keys from a user.\n\nA KEY is a fingerprint as \"haul user key list\" prints it, or the comment of one key. Keys\nin other files have to be removed there.",
		Example: "  haul user key remove alice alice@laptop",
		Args:    commandline.Args(cobra.MinimumNArgs(2)),
	}
	file.change(cmd, func(cmd *cobra.Command, path string, args []string) error {
		u, err := file.find(args[0])
		if err != nil {
			return err
		}
		for _, word := range args[1:] {
			k, err := findKey(u, word)
			if err != nil {
				return err
			}
			same := func(other users.Key) bool { return other.Fingerprint() == k.Fingerprint() }
			if err := users.RemoveKeys(cmd.Context(), path, u.Name, same); err != nil {
				return explainUsers(err, path)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "removed %s from %s\n", describeKey(k), u.Name)
		}
		return nil
	})
	return cmd
}

func newUserKeyList() *cobra.Command {
	var file usersFlag
	cmd := &cobra.Command{
		Use:     "list NAME",
		Short:   "List a user's keys",
		Long:    "List the keys of a user, one a line: options, type, fingerprint and comment.\n\nKeys in files that the users file names are listed too.",
		Example: "  haul user key list alice",
		Args:    commandline.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			u, err := file.find(args[0])
			if err != nil {
				return err
			}
			if len(u.Keys) == 0 {
				return errors.New("user " + u.Name + " has no keys")
			}
			for _, k := range u.Keys {
				fmt.Fprintln(console.NewPlainWriter(cmd.OutOrStdout()), describeKey(k))
			}
			return nil
		},
		ValidArgsFunction: file.complete,
	}
	file.add(cmd)
	return cmd
}

// maxKeyFile is the maximum size of a file of keys that --key names, in bytes.
const maxKeyFile = 1 << 20

// readKeys returns the keys that a value of --key stands for: the keys in a file, the keys on
// standard input (for "-"), or the key that the value itself contains.
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
	keys, err := parseKeys(text)
	if err != nil {
		return nil, failure.Usage.Errorf("%s: %w", source, err)
	}
	return keys, nil
}

// loginMethods says how a user logs in, such as "password, 2 keys" or "disabled".
func loginMethods(u users.User) string {
	var how []string
	if !u.Password.IsZero() {
		how = append(how, "password")
	}
	switch n := len(u.Keys); {
	case n == 1:
		how = append(how, "1 key")
	case n > 1:
		how = append(how, fmt.Sprintf("%d keys", n))
	}
	link := ", "
	if u.Require == users.KeyAndPassword {
		link = " + "
	}
	text := strings.Join(how, link)
	switch {
	case u.Disabled:
		return "disabled"
	case text == "":
		return "no password, no key" // the user may still log in with a certificate
	}
	return text
}

// describeKey returns the options, type, fingerprint and comment of a key.
func describeKey(k users.Key) string {
	if k.Public == nil {
		return "not usable: " + k.String()
	}
	options, _, _ := strings.Cut(k.String(), k.Public.Type())
	return strings.TrimSpace(options + k.Public.Type() + " " + k.Fingerprint() + " " + k.Comment)
}

// findKey returns the key of a user that has a given fingerprint or comment. It returns an error if
// there is no such key, or if several different keys have the comment.
func findKey(u users.User, word string) (found users.Key, err error) {
	for _, k := range u.Keys {
		if k.Public == nil || k.Fingerprint() != word && k.Comment != word {
			continue
		}
		if found.Public != nil && found.Fingerprint() != k.Fingerprint() {
			return k, fmt.Errorf("several keys of %s have the comment %q; name one by its fingerprint: %s, %s", u.Name, word, found.Fingerprint(), k.Fingerprint())
		}
		found = k
	}
	if found.Public == nil {
		return found, fmt.Errorf("user %s has no key with the fingerprint or comment %q; \"haul user key list %s\" lists them", u.Name, word, u.Name)
	}
	return found, nil
}

// looksLikeKey reports whether a word is a key as in authorized_keys, and not the name of a file.
func looksLikeKey(word string) bool { return keyType.MatchString(word) }

var keyType = regexp.MustCompile(`(?:^|\s)(?:ssh|ecdsa|sk-ssh|sk-ecdsa)-[a-z0-9@.-]+\s`)

// parseKeys parses the text of an authorized_keys file. Every line must be valid, because the
// person who runs the command can correct the line at once. By contrast, the server ignores invalid
// lines in a file that the users file names.
func parseKeys(text string) (keys []users.Key, err error) {
	if strings.Contains(text, "PRIVATE KEY-----") {
		return nil, errors.New("that is a private key, which only its owner should have; the public key is in the file with .pub behind its name")
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		k, err := users.ParseKey(line)
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return nil, errors.New("there is no key in it")
	}
	return keys, nil
}
