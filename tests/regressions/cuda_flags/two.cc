// The same options on a plain source.
int two() {
  return 2;
}
