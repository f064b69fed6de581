//go:build !haul_portable

package interop

const tags = ""
