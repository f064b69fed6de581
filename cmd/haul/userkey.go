package main

import (
	"errors"
	"fmt"
	"io"
	"os"

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
			fmt.Fprintf(cmd.OutOrStdout(), "added %s to %s\n", k.Describe(), args[0])
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
			k, err := u.FindKey(word)
			if err != nil {
				return err
			}
			same := func(other users.Key) bool { return other.Fingerprint() == k.Fingerprint() }
			if err := users.RemoveKeys(cmd.Context(), path, u.Name, same); err != nil {
				return explainUsers(err, path)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "removed %s from %s\n", k.Describe(), u.Name)
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
				fmt.Fprintln(console.NewPlainWriter(cmd.OutOrStdout()), k.Describe())
			}
			return nil
		},
		ValidArgsFunction: file.complete,
	}
	file.add(cmd)
	return cmd
}

// maxKeyFile bounds a key file for --key, in bytes.
const maxKeyFile = 1 << 20

// readKeys reads the keys that a value of --key names.
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
	case statErr != nil && users.LooksLikeKey(word):
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
	keys, err := users.ParseKeys(text)
	if err != nil {
		return nil, failure.Usage.Errorf("%s: %w", source, err)
	}
	return keys, nil
}
