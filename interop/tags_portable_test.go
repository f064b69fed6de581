//go:build haul_portable

package interop

const tags = "haul_portable"
