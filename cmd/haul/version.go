package main

import (
	"cmp"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	module "github.com/haul-project/haul"
	"github.com/haul-project/haul/cmd/haul/internal/cli/commandline"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
)

// version is set by the Makefile, and includes the commit. In a program that "go install" has built
// it is empty; such a program prints the version of its Go module.
var version string

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  haul version",
		Args:    commandline.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), versionLine())
			return failure.Local.Wrap(err)
		},
	}
}

// addVersionFlag makes --version and -V print the same as "haul version".
func addVersionFlag(root *cobra.Command) {
	root.Version = versionString()
	root.SetVersionTemplate(versionLine())
	root.Flags().BoolP("version", "V", false, "print the version")
}

func versionLine() string {
	return fmt.Sprintf("haul %s (%s, %s/%s)\n", versionString(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func versionString() string {
	return cmp.Or(version, module.Version())
}
