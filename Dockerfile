# The image of the hub and of its hosts: `make image`. The page is built and the kernel compiled in
# stages of their own; what runs has no compiler, and nobody's rights but its own user's.
ARG BASE=debian:bookworm-slim
ARG NODE=node:22-bookworm-slim

FROM ${NODE} AS page
COPY scripts/build-web /src/scripts/
COPY web /src/web
RUN /src/scripts/build-web /page

FROM ${BASE} AS build
RUN apt-get update -qq \
 && apt-get install -y -qq --no-install-recommends g++ python3-dev python3-venv \
 && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv /opt/tbhub
COPY constraints.txt /src/
RUN /opt/tbhub/bin/pip install -q -c /src/constraints.txt cmake ninja nanobind scikit-build-core
COPY pyproject.toml README.md LICENSE /src/
COPY native /src/native
COPY src /src/src
COPY --from=page /page /src/src/tbhub/hub/web
ENV TBHUB_NO_WEB=1
ARG EXTRAS=docker,kubernetes,postgresql
RUN /opt/tbhub/bin/pip install -q -c /src/constraints.txt --no-build-isolation "/src[${EXTRAS}]" \
 && /opt/tbhub/bin/pip uninstall -q -y cmake ninja nanobind scikit-build-core \
 && /opt/tbhub/bin/python -m compileall -q /opt/tbhub/lib

FROM ${BASE}
RUN apt-get update -qq \
 && apt-get install -y -qq --no-install-recommends ca-certificates python3 \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --create-home tbhub \
 && install -d -o tbhub -g tbhub /var/lib/tbhub
COPY --from=build /opt/tbhub /opt/tbhub
ENV PATH=/opt/tbhub/bin:/usr/bin:/bin \
    TBHUB_HOME=/var/lib/tbhub \
    TBHUB_HOST=0.0.0.0 \
    PYTHONUNBUFFERED=1
USER 10001:10001
VOLUME /var/lib/tbhub
EXPOSE 6060
ENTRYPOINT ["tbhub"]
CMD ["up", "--no-browser"]
