package web

// MaxListing is for tests outside the package.
const MaxListing = maxListing
